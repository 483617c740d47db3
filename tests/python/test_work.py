"""Work: operations that go on while the program does something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from tests.python.conftest import PATIENCE, happens, run_python
from unisono.testing import LocalWorld, local_world

np = pytest.importorskip("numpy")


@pytest.fixture
def worlds() -> Iterator[LocalWorld]:
    with local_world(2) as made:
        yield made


def started(world: unisono.Group, values: Any) -> unisono.Work[Any]:
    work = world.all_reduce(values, async_op=True)
    assert isinstance(work, unisono.Work)
    return work


def finish(world: unisono.Group) -> None:
    """What the other rank's operation waits for."""
    world.all_reduce(np.ones(3))


def test_an_operation_goes_on_without_anybody_waiting(worlds: LocalWorld) -> None:
    values = np.ones(3)
    work = started(worlds[0], values)

    assert not work.done()
    assert not work.is_completed()
    finish(worlds[1])
    assert work.wait() is True
    assert work.done()
    assert work.is_success()
    assert work.exception() is None
    assert work.result() is values
    assert values.tolist() == [2, 2, 2]


def test_a_wait_that_is_too_short_leaves_the_operation_as_it_is(worlds: LocalWorld) -> None:
    work = started(worlds[0], np.ones(3))

    for call in (work.wait, work.result, work.exception):
        with pytest.raises(dist.DistTimeoutError):
            call(0.01)
    assert not work.done()
    finish(worlds[1])
    assert work.result(PATIENCE).tolist() == [2, 2, 2]


def test_a_new_array_is_the_result(worlds: LocalWorld) -> None:
    def gather(world: unisono.Group) -> list[int]:
        return list(world.all_gather_single(bytes([world.rank]), async_op=True).result())

    assert worlds.run(gather) == [[0, 1]] * 2


def test_a_future_has_what_follows(worlds: LocalWorld) -> None:
    values = np.ones(3)
    future = started(worlds[0], values).get_future()
    doubled = future.then(lambda ended: ended.value() * 2)

    assert not future.done()
    finish(worlds[1])
    assert future.wait() is values
    assert doubled.wait().tolist() == [4, 4, 4]


def test_a_future_raises_what_its_operation_failed_with(worlds: LocalWorld) -> None:
    future = started(worlds[0], np.ones(3)).get_future()
    worlds[1].abort()

    with pytest.raises(unisono.AbortedError):
        future.wait()


def test_messages_need_no_order_when_nobody_waits(worlds: LocalWorld) -> None:
    def exchange(world: unisono.Group) -> tuple[int, int]:
        received = bytearray(1)
        receiving = world.irecv(received, src=None)
        sending = world.isend(bytes([world.rank + 5]), 1 - world.rank)
        assert receiving.result(PATIENCE) is received
        assert sending.result(PATIENCE) is None
        return receiving.source_rank(), received[0]

    assert worlds.run(exchange) == [(1, 6), (0, 5)]


def test_a_failure_is_given_and_raised() -> None:
    with local_world(2) as worlds:
        work = started(worlds[0], np.ones(3))
        worlds[1]._leave()
        error = work.exception(PATIENCE)

        assert isinstance(error, dist.DistBackendError)
        assert error.reason == "PEER_LEFT"
        assert work.done()
        assert not work.is_success()
        with pytest.raises(dist.DistBackendError):
            work.result()
        worlds[0]._leave()


def test_an_array_stays_alive_when_all_else_is_dropped(worlds: LocalWorld) -> None:
    values = bytearray(8)
    started(worlds[0], values)  # the Work is dropped
    with pytest.raises(BufferError):
        values.extend(b"more")
    worlds[1].all_reduce(bytearray(8))
    worlds.run(lambda world: world.barrier())  # the operation before it has ended by then

    def is_free() -> bool:
        try:
            values.extend(b"more")
        except BufferError:
            return False
        return True

    assert happens(is_free)


def test_callbacks_are_called_with_the_work(worlds: LocalWorld) -> None:
    called = threading.Event()
    seen: list[unisono.Work[Any]] = []

    def note(work: unisono.Work[Any]) -> None:
        seen.append(work)
        called.set()

    work = started(worlds[0], np.ones(3))
    work.add_done_callback(note)
    assert seen == []
    finish(worlds[1])
    assert called.wait(PATIENCE)
    work.add_done_callback(note)  # has ended: at once
    assert seen == [work, work]


def test_a_callback_may_start_and_wait_for_operations(worlds: LocalWorld) -> None:
    def chain(world: unisono.Group) -> list[float]:
        values, ended = np.ones(2), threading.Event()

        def go_on(_: unisono.Work[Any]) -> None:
            world.all_reduce(values)
            ended.set()

        started(world, values).add_done_callback(go_on)
        assert ended.wait(PATIENCE)
        found: list[float] = values.tolist()
        return found

    assert worlds.run(chain) == [[4, 4]] * 2


def test_what_a_callback_raises_is_reported(
    worlds: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = threading.Event()
    monkeypatch.setattr("sys.unraisablehook", lambda _: reported.set())

    def fail(_: unisono.Work[Any]) -> None:
        raise LookupError("in a callback")

    work = started(worlds[0], np.ones(3))
    work.add_done_callback(fail)
    finish(worlds[1])

    assert reported.wait(PATIENCE)
    assert work.exception() is None


def test_a_work_can_be_awaited(worlds: LocalWorld) -> None:
    async def main() -> list[Any]:
        mine = started(worlds[0], np.ones(3))
        waiting = asyncio.ensure_future(waited(mine))
        await asyncio.sleep(0)  # the loop goes on, and lets the other rank begin
        assert not waiting.done()
        theirs = started(worlds[1], np.ones(3))
        both = await asyncio.wait_for(asyncio.gather(waiting, waited(theirs)), PATIENCE)
        assert await mine is both[0]  # has ended already
        return [values.tolist() for values in both]

    async def waited(work: unisono.Work[Any]) -> Any:
        return await work

    assert asyncio.run(main()) == [[2, 2, 2]] * 2


def test_awaiting_raises_what_failed() -> None:
    async def main(work: unisono.Work[Any], other: unisono.Group) -> None:
        asyncio.get_running_loop().call_soon(other._leave)
        await work

    with local_world(2) as worlds:
        work = started(worlds[0], np.ones(3))
        with pytest.raises(dist.DistBackendError):
            asyncio.run(main(work, worlds[1]))
        worlds[0]._leave()


def test_awaiting_may_be_given_up(worlds: LocalWorld) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def main(work: unisono.Work[Any]) -> None:
        async def waited() -> Any:
            return await work

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waited(), 0.05)

    work = started(worlds[0], np.ones(3))
    asyncio.run(main(work))
    before = descriptors()
    for _ in range(5):
        asyncio.run(main(work))
    assert descriptors() <= before + 5  # those that the end of the operation is still to write to
    finish(worlds[1])
    assert work.result(PATIENCE).tolist() == [2, 2, 2]
    assert happens(lambda: descriptors() < before)


def test_awaiting_needs_no_thread(worlds: LocalWorld) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    started(worlds[0], np.ones(3))
    finish(worlds[1])
    worlds.run(lambda world: world.barrier())

    async def main() -> int:
        work = started(worlds[0], np.ones(3))
        other = threading.Thread(target=finish, args=(worlds[1],))
        before = threads()
        other.start()
        await work
        other.join(PATIENCE)
        return before

    most = asyncio.run(main())
    assert happens(lambda: threads() <= most)


ENDINGS = {
    "with an operation under way": "works.append(worlds[0].barrier(async_op=True))",
    "with an operation under way that nobody knows": "worlds[0].all_reduce(x, async_op=True)",
    "with a callback still to be called": (
        "worlds[0].all_reduce(x, async_op=True).add_done_callback(works.append)"
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_interpreter_is_left(name: str) -> None:
    ended = run_python(
        "from unisono.testing import local_world\n"
        "works, x, context = [], bytearray(8), local_world(2)\n"
        "worlds = context.__enter__()\n" + ENDINGS[name]
    )

    assert (ended.returncode, ended.stderr) == (0, ""), ended
