"""Collectives that leave their arguments alone, and what is under way until it is waited for."""

from __future__ import annotations

import gc
import inspect
import threading
from typing import Any

import numpy as np
import pytest

import unisono
import unisono.distributed as dist
import unisono.functional as funcol
from unisono import Group, local_world

SIZE = 3


def test_a_result_is_new_and_the_argument_stays_as_it_was() -> None:
    def rank(world: Group) -> None:
        mine = np.full(5, world.rank + 1.0)
        total = funcol.all_reduce(mine, "sum", world)
        roots = funcol.broadcast(mine, 1, world)
        assert np.array_equal(funcol.wait_tensor(total), np.full(5, 6.0))
        assert np.array_equal(funcol.wait_tensor(roots), np.full(5, 2.0))
        assert np.array_equal(mine, np.full(5, world.rank + 1.0))

    with local_world(SIZE) as world:
        world.run(rank)


@pytest.mark.parametrize(
    ("op", "right"),
    [("sum", 6), ("avg", 2), ("product", 6), ("min", 1), ("max", 3), ("SUM", 6)],
)
def test_reductions_have_torchs_names(op: str, right: int) -> None:
    def rank(world: Group) -> float:
        return float(
            funcol.wait_tensor(funcol.all_reduce(np.array([world.rank + 1.0]), op, world))[0]
        )

    with local_world(SIZE) as world:
        assert world.run(rank) == [right] * SIZE


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_arrays_are_gathered_along_any_dimension(dim: int) -> None:
    arrays = [np.arange(24.0).reshape(2, 3, 4) + 100 * rank for rank in range(SIZE)]

    def rank(world: Group) -> Any:
        return funcol.wait_tensor(funcol.all_gather_tensor(arrays[world.rank], dim, world))

    with local_world(SIZE) as world:
        for gathered in world.run(rank):
            assert np.array_equal(gathered, np.concatenate(arrays, axis=dim))


def test_single_elements_are_gathered_to_a_row() -> None:
    def rank(world: Group) -> Any:
        return funcol.wait_tensor(funcol.all_gather_tensor(np.array(1.0 + world.rank), 0, world))

    with local_world(SIZE) as world:
        for gathered in world.run(rank):
            assert gathered.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_reduction_is_scattered_along_any_dimension(dim: int) -> None:
    whole = np.arange(54.0).reshape(6, 9)

    def rank(world: Group) -> Any:
        given = whole * (world.rank + 1)
        return funcol.wait_tensor(funcol.reduce_scatter_tensor(given, "sum", dim, world))

    with local_world(SIZE) as world:
        for part, right in zip(world.run(rank), np.split(whole * 6, SIZE, axis=dim), strict=True):
            assert np.array_equal(part, right)


def test_rows_are_exchanged_with_and_without_splits() -> None:
    def rank(world: Group) -> None:
        mine = np.arange(6.0) + 10 * world.rank
        equal = funcol.wait_tensor(funcol.all_to_all_single(mine, None, None, world))
        places = [2 * world.rank, 2 * world.rank + 1]
        assert equal.tolist() == [
            10.0 * source + place for source in range(SIZE) for place in places
        ]
        # Rank r gives r + 1 rows to everybody.
        given = np.full(SIZE * (world.rank + 1), float(world.rank))
        uneven = funcol.all_to_all_single(given, [1, 2, 3], [world.rank + 1] * SIZE, world)
        assert funcol.wait_tensor(uneven).tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 2.0]

    with local_world(SIZE) as world:
        world.run(rank)


def test_arrays_change_places() -> None:
    def rank(world: Group) -> float:
        got = funcol.permute_tensor(np.full(2, float(world.rank)), [1, 2, 0], world)
        return float(funcol.wait_tensor(got)[0])

    with local_world(SIZE) as world:
        assert world.run(rank) == [2.0, 0.0, 1.0]


def test_lists_are_done_one_by_one() -> None:
    def rank(world: Group) -> None:
        lists = [np.full(3, 1.0), np.full(6, 2.0)]
        reduced = funcol.all_reduce_coalesced(lists, "sum", world)
        gathered = funcol.all_gather_into_tensor_coalesced(lists, world)
        scattered = funcol.reduce_scatter_tensor_coalesced(lists, "sum", [0, 0], world)
        assert [funcol.wait_tensor(each).tolist() for each in reduced] == [[3.0] * 3, [6.0] * 6]
        assert [len(funcol.wait_tensor(each)) for each in gathered] == [9, 18]
        assert [funcol.wait_tensor(each).tolist() for each in scattered] == [[3.0], [6.0, 6.0]]

    with local_world(SIZE) as world:
        world.run(rank)


def test_an_argument_that_is_under_way_is_waited_for() -> None:
    def rank(world: Group) -> float:
        once = funcol.all_reduce(np.ones(100_000), "sum", world)
        twice = funcol.all_reduce(once, "sum", world)
        return float(funcol.wait_tensor(twice)[-1])

    with local_world(SIZE) as world:
        assert world.run(rank) == [9.0] * SIZE


def test_arrays_need_not_lie_in_one_row() -> None:
    def rank(world: Group) -> Any:
        columns = np.arange(12.0).reshape(3, 4).T[::2]
        return funcol.wait_tensor(funcol.all_reduce(columns, "sum", world)), columns

    with local_world(2) as world:
        for total, columns in world.run(rank):
            assert np.array_equal(total, 2 * columns)


# What is under way.


def test_all_views_of_an_array_wait_for_it_and_once_is_enough() -> None:
    def rank(world: Group) -> None:
        before = dist._get_work_registry_size()
        total = funcol.all_reduce(np.ones(8), "sum", world)
        assert dist._get_work_registry_size() == before + 1
        assert funcol.wait_tensor(total[2:4]).tolist() == [float(SIZE)] * 2
        assert dist._get_work_registry_size() == before
        funcol.wait_tensor(total)

    with local_world(SIZE) as world:
        world.run(rank)


def test_an_array_that_nothing_writes_to_is_not_waited_for() -> None:
    array = np.ones(3)
    assert funcol.wait_tensor(array) is array


def test_results_that_are_dropped_leave_nothing_behind() -> None:
    def rank(world: Group) -> int:
        before = dist._get_work_registry_size()
        for _ in range(5):
            funcol.all_reduce(np.ones(4), "sum", world)
        world.barrier()
        gc.collect()
        return dist._get_work_registry_size() - before

    with local_world(2) as world:
        assert world.run(rank) == [0, 0]


class Told:
    """A work that counts how often it was waited for."""

    def __init__(self) -> None:
        self.waits = 0

    def wait(self) -> None:
        self.waits += 1


def test_works_of_ones_own_are_waited_for_once_each() -> None:
    array, work, other = np.ones(4), Told(), Told()
    dist._register_work(array, work)
    dist._register_work(array, work)
    dist._register_work(array[1:], other)
    assert dist._get_work_registry_size() == 2
    funcol.wait_tensor(array)
    assert (work.waits, other.waits) == (1, 1)
    assert dist._get_work_registry_size() == 0


def test_another_thread_may_wait_for_what_this_one_has_started() -> None:
    array, work = np.ones(4), Told()
    dist._register_work(array, work)
    seen: list[int] = []

    def other() -> None:
        seen.append(dist._get_work_registry_size())
        funcol.wait_tensor(array)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0]
    assert (work.waits, dist._get_work_registry_size()) == (1, 0)


def test_memory_that_cannot_be_watched_is_kept_until_it_is_waited_for() -> None:
    work = Told()
    memory = bytearray(4)
    dist._register_work(memory, work)
    assert dist._get_work_registry_size() == 1
    funcol.wait_tensor(memory)
    assert (work.waits, dist._get_work_registry_size()) == (1, 0)


def test_the_error_of_an_operation_is_raised_where_it_is_waited_for() -> None:
    def rank(world: Group) -> None:
        if world.rank == 1:
            world._leave()
            return
        total = funcol.all_reduce(np.ones(4), "sum", world)
        try:
            funcol.wait_tensor(total)
        finally:
            assert funcol.wait_tensor(total) is total, "it is told once"

    with pytest.raises(unisono.DistError, match="rank 1"), local_world(2) as world:
        world.run(rank)


# Groups by name.


@pytest.fixture
def alone(tmp_path: Any) -> Any:
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_group_is_found_by_its_name_until_it_is_destroyed(alone: Any) -> None:
    name = alone.group_name
    assert dist._resolve_process_group(name) is alone
    assert funcol.wait_tensor(funcol.all_reduce(np.ones(2), "sum", name)).tolist() == [1.0, 1.0]
    assert funcol.wait_tensor(funcol.all_reduce(np.ones(2), "sum", alone)).tolist() == [1.0, 1.0]
    part = dist.new_group([0])
    assert dist._resolve_process_group(part.group_name) is part
    dist.destroy_process_group(part)
    with pytest.raises(RuntimeError, match="Could not resolve the process group registered under"):
        dist._resolve_process_group(part.group_name)
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match=name):
        funcol.all_reduce(np.ones(2), "sum", name)


def test_a_name_has_one_group(alone: Any) -> None:
    dist._register_process_group("mine", alone)
    with pytest.raises(RuntimeError, match="A process group is already registered under the name"):
        dist._register_process_group("mine", alone)
    dist._unregister_process_group("mine")
    dist._unregister_process_group("mine")  # no mistake
    dist._register_process_group("mine", alone)
    dist._unregister_all_process_groups()
    with pytest.raises(RuntimeError, match="mine"):
        dist._resolve_process_group("mine")


def test_names_may_be_those_of_a_thread(alone: Any) -> None:
    dist._set_thread_isolation_mode(True)
    try:
        dist._register_process_group("mine", alone)
        refused: list[bool] = []

        def other() -> None:
            with pytest.raises(RuntimeError, match="mine"):
                dist._resolve_process_group("mine")
            refused.append(True)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert refused == [True]
        assert dist._resolve_process_group("mine") is alone
    finally:
        dist._set_thread_isolation_mode(False)


# Mistakes.


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda g: funcol.all_reduce(np.ones(2), "mean", g),
            RuntimeError,
            "Unrecognized reduce_op",
        ),
        (lambda g: funcol.all_reduce(np.ones(2), "premul_sum", g), RuntimeError, "premul_sum"),
        (
            lambda _: funcol.all_reduce(np.ones(2), "sum", 7),
            TypeError,
            "'group' must be .* got int",
        ),
        (lambda _: funcol.all_reduce(np.ones(2), "sum", "nobody"), RuntimeError, "nobody"),
        (lambda g: funcol.all_gather_tensor(np.ones(2), 1, g), RuntimeError, "gather_dim is 1"),
        (
            lambda g: funcol.reduce_scatter_tensor(np.ones((2, 3)), "sum", 2, g),
            RuntimeError,
            "scatter_dim is 2",
        ),
        (lambda g: funcol.permute_tensor(np.ones(2), [1], g), RuntimeError, "each of the 1 ranks"),
        (
            lambda g: funcol.all_to_all_single(np.ones(2), [2], None, g),
            RuntimeError,
            "both or none",
        ),
        (
            lambda g: funcol.reduce_scatter_tensor_coalesced([np.ones(2)], "sum", [0, 0], g),
            RuntimeError,
            "1 arrays, but 2 dimensions",
        ),
        (lambda _: dist._register_work(np.ones(2), 7), TypeError, "wait"),  # type: ignore[arg-type]
        (
            lambda _: dist._register_process_group("x", 7),  # type: ignore[arg-type]
            TypeError,
            "ProcessGroup, not int",
        ),
    ],
)
def test_a_mistake_is_told_in_a_sentence(alone: Any, call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(alone)


def test_what_cannot_be_shared_equally_is_refused() -> None:
    def rank(world: Group) -> None:
        with pytest.raises(RuntimeError, match="7 elements, which cannot be shared equally by 2"):
            funcol.reduce_scatter_tensor(np.ones(7), "sum", 0, world)

    with local_world(2) as world:
        world.run(rank)


def test_arguments_are_called_as_in_torch() -> None:
    torchs = pytest.importorskip("torch.distributed._functional_collectives")
    for name in funcol.__all__:
        mine = inspect.signature(getattr(funcol, name)).parameters
        theirs = inspect.signature(getattr(torchs, name)).parameters
        assert list(mine) == list(theirs), name
