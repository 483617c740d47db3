"""The arguments of a ProcessGroup's operations, bundled as c10d does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from unisono.distributed._kinds import Backend
from unisono.distributed._state import ProcessGroup
from unisono.testing import local_world

np = pytest.importorskip("numpy")

SIZE = 3
KINDS = """
    AllToAllOptions AllgatherOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions
    BroadcastOptions GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions
""".split()


@contextmanager
def process_groups(
    size: int = SIZE,
) -> Iterator[Callable[[Callable[[ProcessGroup], Any]], list[Any]]]:
    """Runs a function for every rank at once, with its ProcessGroup."""
    with local_world(size) as worlds:
        store, ranks = dist.HashStore(), list(range(size))
        groups = [ProcessGroup(world, Backend("unisono"), ranks, store) for world in worlds]
        with ThreadPoolExecutor(size) as threads:
            yield lambda body: list(threads.map(body, groups))


def options(kind: str, **fields: Any) -> Any:
    made = getattr(dist, kind)()
    for field, value in fields.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_fields_and_defaults_are_torchs(kind: str) -> None:
    torchs = pytest.importorskip("torch._C._distributed_c10d")
    mine, theirs = getattr(dist, kind)(), getattr(torchs, kind)()
    fields = {name for name in dir(theirs) if not name.startswith("_")}
    assert fields == {name for name in dir(mine) if name[0].islower() and name != "arguments"}
    for field in fields - {"reduceOp"}:
        assert getattr(mine, field) == getattr(theirs, field), field
    if "reduceOp" in fields:
        assert mine.reduceOp == dist.ReduceOp.SUM


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="reduce_op"):
        options("AllreduceOptions", reduce_op=dist.ReduceOp.MAX)


def test_every_operation_takes_its_options() -> None:
    def rank(pg: ProcessGroup) -> None:
        mine = np.full(2, pg.rank() + 1.0)
        largest = mine.copy()
        pg.allreduce([largest], options("AllreduceOptions", reduceOp=dist.ReduceOp.MAX)).wait()
        assert largest.tolist() == [3.0, 3.0]
        several = [mine.copy(), np.ones(1)]
        pg.allreduce_coalesced(several, dist.AllreduceCoalescedOptions()).wait()
        assert [each[0] for each in several] == [6.0, 3.0]
        roots = mine.copy()
        pg.broadcast([roots], opts=options("BroadcastOptions", rootRank=1)).wait()
        assert roots[0] == 2.0
        total = mine.copy()
        pg.reduce([total], options("ReduceOptions", rootRank=2)).wait()
        assert pg.rank() != 2 or total[0] == 6.0
        places = [np.empty(2) for _ in range(SIZE)]
        pg.allgather([places], [mine], dist.AllgatherOptions()).wait()
        assert [each[0] for each in places] == [1.0, 2.0, 3.0]
        kept = [[np.empty(2) for _ in range(SIZE)]] if pg.rank() == 1 else []
        pg.gather(kept, [mine], options("GatherOptions", rootRank=1)).wait()
        assert not kept or [each[0] for each in kept[0]] == [1.0, 2.0, 3.0]
        given = [[np.full(1, 10.0 * r) for r in range(SIZE)]] if pg.rank() == 1 else []
        part = np.empty(1)
        pg.scatter([part], given, options("ScatterOptions", rootRank=1)).wait()
        assert part[0] == 10.0 * pg.rank()
        pg.reduce_scatter([part], [[mine[:1]] * SIZE], dist.ReduceScatterOptions()).wait()
        assert part[0] == 6.0
        pg.barrier(dist.BarrierOptions()).wait()

    with process_groups() as run:
        run(rank)


def test_operations_on_single_arrays_have_both_of_torchs_names() -> None:
    def rank(pg: ProcessGroup) -> None:
        mine = np.full(3, pg.rank() + 1.0)
        for gather in (pg.all_gather_single, pg._allgather_base):
            whole = np.empty(9)
            gather(whole, mine, dist.AllgatherOptions()).wait()
            assert whole.tolist() == [1.0] * 3 + [2.0] * 3 + [3.0] * 3
        for scatter in (pg.reduce_scatter_single, pg._reduce_scatter_base):
            part = np.empty(1)
            scatter(part, mine, dist.ReduceScatterOptions()).wait()
            assert part.tolist() == [6.0]
        for exchange in (pg.all_to_all_single, pg.alltoall_base):
            got = np.empty(3)
            exchange(got, mine, [], [], dist.AllToAllOptions()).wait()
            assert got.tolist() == [1.0, 2.0, 3.0]
        wholes = [np.empty(9), np.empty(3)]
        pg.allgather_into_tensor_coalesced(wholes, [mine, mine[:1]]).wait()
        assert [whole[-1] for whole in wholes] == [3.0, 3.0]
        parts = [np.empty(1), np.empty(2)]
        pg.reduce_scatter_tensor_coalesced(parts, [mine, np.ones(6)]).wait()
        assert [each.tolist() for each in parts] == [[6.0], [3.0, 3.0]]
        lists = [[np.empty(3), np.empty(1)] for _ in range(SIZE)]
        pg.allgather_coalesced(lists, [mine, mine[:1]], dist.AllgatherOptions()).wait()
        assert [each[1][0] for each in lists] == [1.0, 2.0, 3.0]

    with process_groups() as run:
        run(rank)


def test_a_timeout_among_them_counts() -> None:
    def rank(pg: ProcessGroup) -> None:
        if pg.rank() == 0:
            short = options("BarrierOptions", timeout=timedelta(milliseconds=50))
            with pytest.raises(unisono.DistTimeoutError):
                pg.barrier(short).wait()

    with process_groups(2) as run:
        run(rank)


def test_how_a_work_has_ended_is_a_number() -> None:
    def rank(pg: ProcessGroup) -> int:
        return int(pg.allreduce([np.ones(2)]).get_future_result().wait())

    with process_groups() as run:
        assert run(rank) == [dist.WorkResult.SUCCESS] * SIZE


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda pg: pg.allreduce([np.ones(1)], dist.BroadcastOptions()),
            TypeError,
            r"allreduce\(\) takes AllreduceOptions, not BroadcastOptions",
        ),
        (
            lambda pg: pg.allgather([[np.ones(1)], [np.ones(1)]], [np.ones(1)]),
            ValueError,
            "2 lists, but one device",
        ),
    ],
)
def test_a_mistake_is_told_in_a_sentence(call: Any, error: type, text: str) -> None:
    def rank(pg: ProcessGroup) -> None:
        with pytest.raises(error, match=text):
            call(pg)

    with process_groups(1) as run:
        run(rank)
