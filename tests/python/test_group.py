"""unisono.init() and the operations that every program begins with."""

from __future__ import annotations

import array
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from tests.python.conftest import PATIENCE, run_python
from tests.signals import CTRL_C_BOUND, signal_inside
from unisono.testing import local_world

np = pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[2]

LAUNCHERS = ("MASTER_", "OMPI_", "PMI", "SLURM_", "UNISONO_RANK", "UNISONO_SIZE")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which no launcher has said anything."""
    for name in list(os.environ):
        if name.startswith(LAUNCHERS) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("bare")
def test_without_a_launcher_there_is_a_world_of_one() -> None:
    with unisono.init() as world:
        values = np.arange(4.0)

        assert (world.rank, world.size, world.name) == (0, 1, "world")
        assert "nobody: a world of one" in repr(world)
        assert world.all_reduce(values) is values
        assert values.tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("bare")
def test_a_store_needs_rank_and_size() -> None:
    with pytest.raises(dist.UsageError, match="rank and size too"):
        unisono.init(store=dist.HashStore())


def launched(*command: str) -> list[str]:
    """What three ranks say that run a command as under Open MPI."""
    port = dist.TCPStore("127.0.0.1", 0, is_master=True).port
    ranks = [
        subprocess.Popen(
            [sys.executable, *command],
            env={
                "PATH": os.environ["PATH"],
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "3",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    return [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]


def test_processes_meet_as_their_launcher_says() -> None:
    said = launched(
        "-c",
        """
import numpy, unisono
with unisono.init(timeout=60) as world:
    values = numpy.full(1000, world.rank + 1, dtype=numpy.float32)
    world.all_reduce(values, op="avg")
    world.barrier()
    print(world.rank, world.size, set(values.tolist()))
""",
    )

    assert said == [f"{rank} 3 {{2.0}}\n" for rank in range(3)]


def test_the_example_averages() -> None:
    said = launched(str(ROOT / "examples" / "average_numpy.py"))

    assert said == [f"rank {rank}: the average of ranks [0, 1, 2] is 1.0\n" for rank in range(3)]


def test_ranks_meet_at_a_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'meet'}"
    sizes = []

    def meet(rank: int) -> None:
        with unisono.init(url, rank=rank, size=2, timeout=60) as world:
            sizes.append(world.size)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert sizes == [2, 2]


def test_who_does_not_come_is_named() -> None:
    with pytest.raises(dist.DistError) as caught:
        unisono.init(store=dist.HashStore(), rank=0, size=2, timeout=0.2)

    assert caught.value.reason == "TIMEOUT"
    assert caught.value.culprits == (1,)


KINDS: dict[str, Any] = {
    "a NumPy array": lambda: np.arange(6, dtype=np.int32),
    "a matrix": lambda: np.arange(6.0).reshape(2, 3),
    "every second element": lambda: np.arange(12.0)[::2],
    "backwards": lambda: np.arange(6.0)[::-1],
    "a transposed matrix": lambda: np.arange(6.0).reshape(2, 3).T,
    "half precision": lambda: np.arange(6, dtype=np.float16),
    "complex numbers": lambda: np.arange(6, dtype=np.complex64) * 1j,
    "an array.array": lambda: array.array("q", range(6)),
    "a bytearray": lambda: bytearray(range(6)),
    "a memoryview": lambda: memoryview(bytearray(range(6))),
    "a single number": lambda: np.array(7.0),
    "no numbers": lambda: np.empty((0, 3)),
}


@pytest.mark.parametrize("name", KINDS)
def test_everything_with_a_buffer_is_reduced_where_it_is(name: str) -> None:
    def reduce(world: unisono.Group) -> Any:
        values = KINDS[name]()
        assert world.all_reduce(values) is values
        return np.asarray(values).tolist()

    with local_world(2) as worlds:
        found = worlds.run(reduce)

    assert found == [(np.asarray(KINDS[name]()) * 2).tolist()] * 2


def test_an_operation_has_many_ways_to_reduce() -> None:
    def reduce(world: unisono.Group) -> list[float]:
        return [
            world.all_reduce(np.array([world.rank + 1]), op)[0]
            for op in ("sum", "product", "min", "max", "band", "bor", "bxor", "SUM")
        ]

    with local_world(3) as worlds:
        assert worlds.run(reduce) == [[6, 6, 1, 3, 0, 3, 0, 6]] * 3


def test_broadcast_gives_everybody_the_roots_elements() -> None:
    with local_world(3) as worlds:
        found = worlds.run(lambda world: world.broadcast(np.full(3, world.rank), root=2).tolist())

    assert found == [[2, 2, 2]] * 3


@pytest.mark.parametrize("type_name", ["float32", "bfloat16", "int64", "bool", "float8_e5m2"])
def test_tensors_of_pytorch_are_arrays(type_name: str) -> None:
    torch = pytest.importorskip("torch")
    with local_world(2) as worlds:
        found = worlds.run(
            lambda world: world.broadcast(
                torch.full((4,), world.rank, dtype=getattr(torch, type_name)), root=1
            )
        )

    assert all(tensor.float().tolist() == [1, 1, 1, 1] for tensor in found)


def refusals() -> dict[str, tuple[Any, str]]:
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    packed = np.zeros(3, dtype=[("a", "i1"), ("b", "f8")])
    return {
        "objects": (np.array([object()]), "an array of object cannot be sent"),
        "texts": (np.array(["text"]), "an array of <U4 cannot be sent"),
        "records": (packed, "cannot be sent"),
        "dates": (np.zeros(2, dtype="datetime64[s]"), r"datetime64\[s\] cannot be sent"),
        "long doubles": (np.zeros(2, dtype=np.longdouble), "float128 cannot be sent"),
        "the other byte order": (np.zeros(2, dtype=">f4"), "an array of >f4 cannot be sent"),
        "what is read-only": (frozen, "the array is read-only"),
        "bytes": (b"frozen", "the array is read-only"),
        "fields of records": (packed["b"], "as fields of records do"),
    }


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_sent_is_refused_in_one_line(name: str) -> None:
    values, words = refusals()[name]
    with unisono.init() as world, pytest.raises(dist.UsageError, match=words) as caught:
        world.all_reduce(values)

    assert caught.value.reason == "USAGE"
    assert caught.value.hint != ""
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("bare")
def test_what_is_no_array_is_a_type_error() -> None:
    with unisono.init() as world:
        for thing in (3, [1.0], None, "text"):
            with pytest.raises(TypeError, match="must be an array"):
                world.all_reduce(thing)


@pytest.mark.usefixtures("bare")
def test_tensors_that_are_not_what_their_memory_says_are_refused() -> None:
    torch = pytest.importorskip("torch")
    conjugated = torch.zeros(2, dtype=torch.complex64).conj()
    cases = {
        r"pass \.detach\(\)": torch.zeros(2, requires_grad=True),
        r"pass \.resolve_conj\(\)": conjugated,
        r"pass \.resolve_neg\(\)": conjugated.imag,
    }
    with unisono.init() as world:
        for remedy, tensor in cases.items():
            with pytest.raises(dist.UsageError, match=remedy):
                world.all_reduce(tensor)
        with torch.no_grad():
            world.all_reduce(torch.zeros(2, requires_grad=True))


def test_a_premultiplied_sum_takes_the_factor_of_each_rank() -> None:
    def reduce(world: unisono.Group) -> list[float]:
        values = np.array([1.0, 10.0])
        world.all_reduce(values, op=unisono.premul_sum(world.rank + 0.5))
        found: list[float] = values.tolist()
        return found

    with local_world(2) as worlds:
        assert worlds.run(reduce) == [[2.0, 20.0]] * 2


@pytest.mark.usefixtures("bare")
def test_an_unknown_reduction_is_refused_with_those_there_are() -> None:
    with unisono.init() as world, pytest.raises(dist.UsageError, match="one of sum, avg"):
        world.all_reduce(np.zeros(1), op="mean")


def test_ranks_that_disagree_are_told() -> None:
    def disagree(world: unisono.Group) -> dist.DistError:
        with pytest.raises(dist.MismatchError) as caught:
            world.all_reduce(np.zeros(3 + world.rank))
        return caught.value

    with local_world(2) as worlds:
        errors = worlds.run(disagree)

    assert [error.rank for error in errors] == [0, 1]
    assert all((error.op, error.world) == ("all_reduce", 2) for error in errors)


def test_a_timeout_names_who_is_missing() -> None:
    with local_world(2) as worlds, pytest.raises(dist.DistTimeoutError) as caught:
        worlds[0].all_reduce(np.zeros(3), timeout=0.2)

    assert caught.value.culprits == (1,)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.usefixtures("bare")
def test_a_closed_group_refuses_operations_and_is_closed_but_once() -> None:
    world = unisono.init()
    world.close()
    world.close()

    assert "closed" in repr(world)
    with pytest.raises(dist.DistError) as caught:
        world.barrier()
    assert caught.value.reason == "SHUTDOWN"


def test_who_leaves_by_an_exception_keeps_nobody_waiting() -> None:
    def leave(world: unisono.Group) -> str:
        if world.rank == 0:
            with pytest.raises(LookupError), world:
                raise LookupError
            return "left"
        with pytest.raises(dist.DistBackendError) as caught:
            world.all_reduce(np.zeros(3))
        return caught.value.reason

    with local_world(2) as worlds:
        assert worlds.run(leave) == ["left", "PEER_LEFT"]
        for world in worlds:
            world._leave()


def test_other_threads_run_while_a_rank_waits() -> None:
    with local_world(2) as worlds:
        waiting = threading.Thread(target=worlds[0].barrier)
        waiting.start()
        worlds[1].barrier()
        waiting.join(PATIENCE)

        assert not waiting.is_alive()


def test_ctrl_c_ends_a_collective() -> None:
    calls: list[Callable[[unisono.Group], object]] = [
        lambda world: world.barrier(),
        lambda world: world.all_reduce(np.zeros(1000)),
        lambda world: world.broadcast(np.zeros(1 << 22), root=1),
    ]
    for call in calls:
        with (
            pytest.raises(KeyboardInterrupt),
            local_world(2) as worlds,
            signal_inside() as sent,
        ):
            call(worlds[0])

        assert time.monotonic() - sent[0] < CTRL_C_BOUND


def test_the_others_learn_of_ctrl_c() -> None:
    with pytest.raises(dist.AbortedError) as caught, local_world(2) as worlds:
        with signal_inside(), pytest.raises(KeyboardInterrupt):
            worlds[0].all_reduce(np.zeros(3))
        worlds[1].all_reduce(np.zeros(3))

    assert caught.value.culprits == (0,)


@pytest.mark.usefixtures("bare")
def test_an_array_is_let_go_of_after_its_operation() -> None:
    values = bytearray(8)
    with unisono.init() as world:
        world.all_reduce(values)
        values.extend(b"more")  # refused while anybody uses the buffer

    assert len(values) == 12


ENDINGS = {
    "with a world that was not closed": "world = unisono.init(); world.barrier()",
    "while a daemon thread waits for a peer": """
import threading, time
from unisono.testing import local_world
context = local_world(2)  # closed when it goes
worlds = context.__enter__()
def wait():
    try:
        worlds[0].barrier()
    except unisono.distributed.DistError:
        pass  # the group is left at the end
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.1)
""",
    "with a world of torch's functions that was not destroyed": """
import unisono.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
group = dist.new_group([0])
dist.barrier(group)
""",
    "with operations under way whose peer never comes": """
from unisono.testing import local_world
context = local_world(2)
worlds = context.__enter__()
values = bytearray(3)
works = [worlds[0].all_reduce(values, async_op=True) for _ in range(3)]
works[0].add_done_callback(print)
""",
    "with a future that is not there yet": """
import threading
import unisono.distributed as dist
from unisono.distributed._works import Work
from unisono.testing import local_world
context = local_world(2)
worlds = context.__enter__()
work = worlds[0].all_reduce(bytearray(3), async_op=True)
future = Work(work._work, []).get_future()
after = future.then(lambda done: done.value())
def wait():
    try:
        after.wait()
    except dist.DistError:
        pass  # the group is left at the end
threading.Thread(target=wait, daemon=True).start()
""",
    "while daemon threads work without end": """
import threading, time
from unisono.testing import local_world
context = local_world(2)
worlds = context.__enter__()
def work(world):
    values = bytearray(8)
    try:
        while True:
            world.all_reduce(values)
    except unisono.distributed.DistError:
        pass  # the group is left at the end
for world in worlds:
    threading.Thread(target=work, args=(world,), daemon=True).start()
time.sleep(0.1)
""",
    "with memory of a group that was closed": """
with unisono.init() as world:
    values = world.allocate(1000)
values += 1
""",
    "by sys.exit inside a world": """
import sys
with unisono.init() as world:
    work = world.barrier(async_op=True)
    sys.exit(0)
""",
    "while a rank waits at the meeting": """
import os, threading, time
os.environ |= {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": f"a test of {os.getpid()}",
}
threading.Thread(target=unisono.init, daemon=True).start()
time.sleep(0.1)
""",
    "in a forked child, which cannot use the groups of its parent": """
import os, sys
world = unisono.init()
world.all_reduce(bytearray(3), async_op=True).wait()
child = os.fork()
if child == 0:
    try:
        world.barrier()
    except unisono.distributed.DistError as error:
        sys.exit(0 if error.reason == "FORKED" else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_interpreter_is_left(name: str) -> None:
    ended = run_python("import unisono\n" + ENDINGS[name])

    assert (ended.returncode, ended.stderr) == (0, ""), ended


def test_numpy_is_imported_only_by_who_uses_it() -> None:
    ended = run_python(
        "import sys, unisono; unisono.init().all_reduce(bytearray(3)); "
        "print({'torch', 'numpy', 'asyncio'} & set(sys.modules))"
    )

    assert ended.stdout == "set()\n", ended
    assert importlib.util.find_spec("numpy") is not None
