"""Communication hooks: functions in Python that reduce a bucket of gradients in their way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from tests.python.conftest import run_python
from unisono.testing import local_world

np = pytest.importorskip("numpy")


def trained(
    world: unisono.Group, hook: Any, steps: int = 3, dtype: str = "float32"
) -> list[list[float]]:
    """The gradients after some steps; of rank r they were r + 1, r + 2 and r + 3."""
    model = unisono.DataParallel(
        [np.zeros(2, dtype), np.zeros((2, 2), dtype), np.zeros(1, dtype)],
        world,
        hook=hook,
        first_bucket_bytes_cap=1,
        bucket_bytes_cap=1,
    )
    for _ in range(steps):
        with model.step():
            for param in (2, 1, 0):
                model.ready(param, np.full_like(model.grad(param), param + 1 + world.rank))
    return [model.grad(param).ravel().tolist() for param in range(3)]


def everywhere(make: Callable[[unisono.Group], Any], **options: Any) -> list[Any]:
    """With a hook for each rank."""
    with local_world(2) as worlds:
        return worlds.run(lambda world: trained(world, make(world), **options))


AVERAGES = [[1.5] * 2, [2.5] * 4, [3.5]]


@pytest.mark.parametrize("kind", list(dist.BuiltinCommHookType))
def test_a_built_in_hook_gives_the_average(kind: Any) -> None:
    assert everywhere(lambda _: kind) == [AVERAGES] * 2


def test_a_work_is_an_answer() -> None:
    def make(world: unisono.Group) -> Any:
        return lambda bucket: world.all_reduce(bucket.buffer(), "avg", async_op=True)

    assert everywhere(make) == [AVERAGES] * 2


def test_a_future_with_what_follows_is_an_answer() -> None:
    def make(world: unisono.Group) -> Any:
        def reduce(bucket: dist.GradBucket) -> Any:
            summed = world.all_reduce(bucket.buffer(), async_op=True).get_future()
            return summed.then(lambda done: done.value() / 2)  # not in place: another array

        return reduce

    assert everywhere(make) == [AVERAGES] * 2


def test_what_follows_may_wait_for_operations() -> None:
    def make(world: unisono.Group) -> Any:
        def again(done: unisono.Future) -> Any:
            values = done.value()
            world.all_reduce(values)
            return values / 4

        def reduce(bucket: dist.GradBucket) -> Any:
            return world.all_reduce(bucket.buffer(), async_op=True).get_future().then(again)

        return reduce

    # One bucket at a time is under way in the first step, in which there is only one.
    assert everywhere(make, steps=1) == [AVERAGES] * 2


def test_a_future_may_be_completed_by_another_thread() -> None:
    def make(world: unisono.Group) -> Any:
        def reduce(bucket: dist.GradBucket) -> unisono.Future:
            future = unisono.Future()
            threading.Thread(target=lambda: future.set_result(bucket.buffer() + 1)).start()
            return future

        return reduce

    first, second = everywhere(make, steps=1)
    assert first == [[2, 2], [3] * 4, [4]]
    assert second == [[3, 3], [4] * 4, [5]]


def test_a_bucket_says_what_it_is() -> None:
    seen = []

    def note(bucket: dist.GradBucket) -> unisono.Future:
        parts = [gradient.shape for gradient in bucket.gradients()]
        assert parts == [param.shape for param in bucket.parameters()]
        seen.append((bucket.index(), bucket.is_last(), bucket.buffer().size, parts))
        bucket.gradients()[0][...] = 9  # a view
        bucket.set_buffer(bucket.buffer() * 2)
        assert (bucket.gradients()[0] == 18).all()
        future = unisono.Future()
        future.set_result(bucket.buffer())
        return future

    with local_world(1) as worlds:
        assert trained(worlds[0], note, steps=2) == [[18, 18], [18] * 4, [18]]
    assert seen == [
        (0, True, 7, [(2,), (2, 2), (1,)]),
        (0, False, 1, [(1,)]),
        (1, False, 4, [(2, 2)]),
        (2, True, 2, [(2,)]),
    ]


def test_a_bucket_may_be_looked_at_when_the_step_is_over() -> None:
    kept = []

    def keep(bucket: dist.GradBucket) -> unisono.Future:
        kept.append(bucket)
        future = unisono.Future()
        future.set_result([bucket.buffer()])
        return future

    with local_world(1) as worlds:
        trained(worlds[0], keep, steps=1)
    assert kept[0].buffer().tolist() == [1, 1, 2, 2, 2, 2, 3]


def failing(hook: Any, text: str, kind: type[Exception] = dist.UsageError) -> BaseException:
    """What a hook that fails on rank 1 leads to there."""
    caught: list[BaseException] = []

    def train(world: unisono.Group) -> None:
        def reduce(bucket: dist.GradBucket) -> Any:
            if world.rank == 1:
                return hook(bucket)
            return world.all_reduce(bucket.buffer(), async_op=True)

        if world.rank == 1:
            with pytest.raises(kind, match=text) as info:
                trained(world, reduce, steps=1)
            caught.append(info.value)
        else:
            with pytest.raises(dist.DistError):
                trained(world, reduce, steps=1)
        world._leave()

    with local_world(2) as worlds:
        worlds.run(train)
    return caught[0]


def raising(_: dist.GradBucket) -> Any:
    raise LookupError("in a hook")


def failed(_: dist.GradBucket) -> unisono.Future:
    future = unisono.Future()
    future.set_exception(LookupError("in a future"))
    return future


def test_what_a_hook_raises_ends_the_step_on_all_ranks_and_names_the_bucket() -> None:
    error = failing(raising, "threw for bucket 0: LookupError: in a hook")
    assert isinstance(error.__cause__, LookupError)


def test_what_a_future_fails_with_names_the_bucket() -> None:
    with local_world(1) as worlds:
        text = "future of the communication hook failed for bucket 0: LookupError: in a future"
        with pytest.raises(dist.UsageError, match=text) as caught:
            trained(worlds[0], failed)
        assert isinstance(caught.value.__cause__, LookupError)


def test_an_answer_that_is_none_is_refused() -> None:
    failing(lambda _: 3, "must return a Future object, but got builtins.int")


def answered(value: Any) -> Callable[[dist.GradBucket], unisono.Future]:
    def answer(_: dist.GradBucket) -> unisono.Future:
        future = unisono.Future()
        future.set_result(value)
        return future

    return answer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros(3, "float32"), r"gave float32\[3\] for bucket 0"),
        (np.zeros(7, "float64"), r"gave float64\[7\] for bucket 0"),
        ([np.zeros(7, "float32")] * 2, "bucket 0: TypeError: one array .* not 2"),
        (None, "bucket 0: TypeError: array must be an array .* not NoneType"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, text: str) -> None:
    with local_world(1) as worlds, pytest.raises(dist.UsageError, match=text):
        trained(worlds[0], answered(value))


def test_a_future_that_nobody_can_complete_is_no_wait() -> None:
    with local_world(1) as worlds, pytest.raises(dist.UsageError, match="it was forgotten"):
        trained(worlds[0], lambda _: unisono.Future())


def test_errors_of_the_group_pass_through_a_hook() -> None:
    def train(world: unisono.Group) -> Any:
        if world.rank == 1:
            unisono.DataParallel([np.zeros(2)], world)
            world._leave()
            return None

        def reduce(bucket: dist.GradBucket) -> Any:
            return world.all_reduce(bucket.buffer(), async_op=True)

        model = unisono.DataParallel([np.zeros(2)], world, hook=reduce)
        with pytest.raises(unisono.DistBackendError) as caught, model.step():
            model.ready(0, [1.0, 2.0])
        world._leave()
        return caught.value.reason

    with local_world(2) as worlds:
        assert worlds.run(train)[0] == "PEER_LEFT"


def test_ctrl_c_in_a_hook_is_that_and_nothing_else() -> None:
    def interrupt(_: dist.GradBucket) -> Any:
        raise KeyboardInterrupt

    with local_world(1) as worlds, pytest.raises(KeyboardInterrupt):
        trained(worlds[0], interrupt)


def test_ctrl_c_ends_the_wait_for_all_buckets_and_the_step_can_still_be_finished() -> None:
    ended = run_python(
        """
        import os, signal, threading
        import numpy as np, unisono
        from unisono.testing import local_world

        pending = []

        def reduce(bucket):
            pending.append((unisono.Future(), bucket.buffer()))
            return pending[-1][0]

        with local_world(1) as worlds:
            model = unisono.DataParallel([np.zeros(1), np.zeros(1)], worlds[0], hook=reduce,
                                         bucket_bytes_cap_list=[1])
            model.begin()
            model.ready(1, [1.0])
            model.ready(0, [2.0])
            assert len(pending) == 2
            try:
                threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
                model.finish()
            except KeyboardInterrupt:
                print("interrupted")
            for future, row in pending:
                future.set_result(row * 2)
            model.finish()
            print(model.grad(0)[0], model.grad(1)[0])
        """
    )

    assert ended.stdout == "interrupted\n4.0 2.0\n", ended


def test_gradients_of_several_threads_are_reduced_in_one_order() -> None:
    def train(world: unisono.Group) -> Any:
        order: list[int] = []

        def reduce(bucket: dist.GradBucket) -> Any:
            order.append(bucket.index())
            return world.all_reduce(bucket.buffer(), "avg", async_op=True)

        model = unisono.DataParallel(
            [np.zeros(3) for _ in range(16)], world, hook=reduce, bucket_bytes_cap_list=[1]
        )
        for step in range(10):
            order.clear()
            model.begin()
            with ThreadPoolExecutor(4) as threads:
                for param in range(16):
                    threads.submit(model.ready, param, np.full(3, step + param + world.rank))
            model.finish()
            assert order == list(range(16))
        return [float(model.grad(param)[0]) for param in range(16)]

    with local_world(2) as worlds:
        assert worlds.run(train) == [[9.5 + param for param in range(16)]] * 2


def test_what_is_no_hook_is_refused() -> None:
    with local_world(1) as worlds:
        with pytest.raises(TypeError, match=r"Communication hook must be callable\."):
            trained(worlds[0], "average")
        with pytest.raises(dist.UsageError, match="cannot make float16 of"):
            trained(worlds[0], dist.BuiltinCommHookType.FP16_COMPRESS, dtype="complex64")
