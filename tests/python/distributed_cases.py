"""A program of torch.distributed, run with torch's tensors or with unisono's name and NumPy arrays.

    python -m tests.python.distributed_cases unisono|torch RANK SIZE FILE

Each case is written once, for both. What it returns is data, which must be the same; the results
of all cases are printed as JSON. Ranks that take no part in a case return nothing.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

CASES: dict[str, Callable[[Any, Any, int, int], Any]] = {}


def case(function: Callable[[Any, Any, int, int], Any]) -> Callable[[Any, Any, int, int], Any]:
    CASES[function.__name__] = function
    return function


def raises(kind: type[Exception], call: Callable[[], object]) -> bool:
    """Whether `call` raises what programs catch as `kind`."""
    try:
        call()
    except kind:
        return True
    return False


@case
def reductions(dist: Any, new: Any, rank: int, size: int) -> Any:
    results = {}
    ops = dist.ReduceOp
    for op in (ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX):
        values = new([rank + 1.5, -rank, 2.0 * rank], "float64")
        assert dist.all_reduce(values, op=op) is None
        results[op.name] = values.tolist()
    for op in (ops.BAND, ops.BOR, ops.BXOR):
        values = new([rank + 1, 7 - rank], "int32")
        dist.all_reduce(values, op)
        results[op.name] = values.tolist()
    return results


@case
def works(dist: Any, new: Any, rank: int, size: int) -> Any:
    values = new([rank, rank + 1], "int64")
    work = dist.all_reduce(values, async_op=True)
    assert isinstance(work, dist.Work)
    waited = work.wait()
    other = new([rank], "float32")
    future = dist.all_reduce(other, async_op=True).get_future()
    then = future.then(lambda done: done.value()[0].tolist())
    late = new([rank], "float32")
    assert dist.barrier(async_op=True).wait(timedelta(seconds=30))
    dist.broadcast(late, 1, async_op=True).wait()
    return [waited, values.tolist(), then.wait(), work.is_completed(), late.tolist()]


@case
def roots(dist: Any, new: Any, rank: int, size: int) -> Any:
    values = new([rank, 10 * rank], "int32")
    dist.broadcast(values, src=1)
    again = new([rank], "int32")
    dist.broadcast(again, group_src=2)
    total = new([rank + 1], "int64")
    dist.reduce(total, dst=2)
    return [values.tolist(), again.tolist(), total.tolist() if rank == 2 else None]


@case
def gathers(dist: Any, new: Any, rank: int, size: int) -> Any:
    mine = new([[rank, rank + 1]], "int32")
    parts = [new([[0, 0]], "int32") for _ in range(size)]
    dist.all_gather(parts, mine)
    rows = new([[0, 0]] * size, "int32")
    dist.all_gather_into_tensor(rows, mine)
    taken = [new([[0, 0]], "int32") for _ in range(size)] if rank == 1 else None
    dist.gather(mine, taken, dst=1)
    given = [new([place, rank], "float32") for place in range(size)] if rank == 0 else None
    got = new([0, 0], "float32")
    dist.scatter(got, given)
    return [
        [part.tolist() for part in parts],
        rows.tolist(),
        [part.tolist() for part in taken] if taken else None,
        got.tolist(),
    ]


@case
def shares(dist: Any, new: Any, rank: int, size: int) -> Any:
    inputs = [new([rank + place, 1], "int32") for place in range(size)]
    one = new([0, 0], "int32")
    dist.reduce_scatter(one, inputs)
    flat = new([rank * place for place in range(2 * size)], "float32")
    part = new([0, 0], "float32")
    dist.reduce_scatter_tensor(part, flat, op=dist.ReduceOp.SUM)
    return [one.tolist(), part.tolist()]


@case
def exchanges(dist: Any, new: Any, rank: int, size: int) -> Any:
    inputs = [new([rank, place], "int32") for place in range(size)]
    outputs = [new([0, 0], "int32") for _ in range(size)]
    dist.all_to_all(outputs, inputs)
    equal = new([0] * size, "int64")
    dist.all_to_all_single(equal, new([10 * rank + place for place in range(size)], "int64"))
    # Rank r sends r + 1 rows to everybody.
    uneven = new([0] * sum(range(1, size + 1)), "int64")
    dist.all_to_all_single(
        uneven,
        new([rank] * (size * (rank + 1)), "int64"),
        output_split_sizes=list(range(1, size + 1)),
        input_split_sizes=[rank + 1] * size,
    )
    return [[each.tolist() for each in outputs], equal.tolist(), uneven.tolist()]


@case
def messages(dist: Any, new: Any, rank: int, size: int) -> Any:
    after, before = (rank + 1) % size, (rank - 1) % size
    got = new([0, 0], "float32")
    sent = dist.isend(new([rank, 1], "float32"), after, tag=7)
    source = dist.recv(got, before, tag=7)
    sent.wait()
    any_one = new([0], "int32")
    if rank == 0:
        who = sorted(dist.recv(any_one) for _ in range(size - 1))
    else:
        who = [dist.send(new([rank], "int32"), dst=0)]
    batch = new([0], "int64")
    ops = [
        dist.P2POp(dist.isend, new([rank], "int64"), after, tag=9),
        dist.P2POp(dist.irecv, batch, before, tag=9),  # apart from what rank 0 takes from any
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return [got.tolist(), source, who, batch.tolist(), [op.peer for op in ops]]


@case
def objects(dist: Any, new: Any, rank: int, size: int) -> Any:
    every: list[Any] = [None] * size
    dist.all_gather_object(every, {"rank": rank, "kind": complex(rank, 1)})
    root = [None] * size if rank == 0 else None
    dist.gather_object((rank, "x"), root)
    shared = [1, "two", {3}] if rank == 2 else [None] * 3
    dist.broadcast_object_list(shared, src=2)
    mine = [None]
    dist.scatter_object_list(mine, [[place] for place in range(size)] if rank == 0 else None)
    message: list[Any] = [None, None]
    source = None
    if rank == 0:
        dist.send_object_list(["a", range(3)], dst=1)
    elif rank == 1:
        source = dist.recv_object_list(message, src=0)
    return [repr(every), repr(root), repr(shared), mine, repr(message), source]


@case
def groups(dist: Any, new: Any, rank: int, size: int) -> Any:
    pair = dist.new_group([2, 0])
    values = new([rank + 1], "int32")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = dist.all_reduce(values, group=pair)
    facts = [dist.get_rank(pair), dist.get_world_size(pair), result, values.tolist()]
    facts.append(any("does not belong to the given group" in str(each.message) for each in said))
    if rank != 1:
        facts += [dist.get_group_rank(pair, 2), dist.get_global_rank(pair, 1)]
        facts += [dist.get_process_group_ranks(pair), pair.rank(), pair.size()]
        values = new([rank], "int32")
        dist.broadcast(values, src=2, group=pair)
        got = new([0], "int32")
        if rank == 0:
            dist.send(new([5], "int32"), group=pair, group_dst=1)
        else:
            facts.append(dist.recv(got, group=pair))
        facts += [values.tolist(), got.tolist()]
        dist.destroy_process_group(pair)
        facts.append(raises(ValueError, lambda: dist.get_rank(pair)))
    else:
        facts += [
            pair == dist.GroupMember.NON_GROUP_MEMBER,
            raises(ValueError, lambda: dist.get_backend(pair)),
        ]
    unsorted = dist.new_group([2, 1, 0], sort_ranks=False)
    facts.append(dist.get_rank(unsorted))
    local = dist.new_group([0, 1], use_local_synchronization=True)
    facts.append(local is None)
    if local is not None:
        dist.barrier(local)
    current, every = dist.new_subgroups(group_size=1)
    facts += [dist.get_world_size(current), len(every), dist.get_process_group_ranks(current)]
    current, every = dist.new_subgroups_by_enumeration([[1], [0, 2]])
    facts += [dist.get_world_size(current), dist.get_rank(every[1])]
    return facts


@case
def questions(dist: Any, new: Any, rank: int, size: int) -> Any:
    return [
        dist.is_available(),
        dist.is_initialized(),
        dist.get_rank(),
        dist.get_world_size(),
        dist.get_backend(),
        dist.get_backend() == dist.Backend.GLOO,
        dist.Backend("GLOO"),
        dist.is_backend_available("gloo"),
        dist.get_process_group_ranks(dist.group.WORLD),
        dist.GroupMember.WORLD is dist.group.WORLD,
        dist.get_node_local_rank(fallback_rank=4),
        isinstance(dist.ReduceOp.SUM, dist.ReduceOp),
        [int(op) for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PREMUL_SUM)],
        dist.supports_complex(dist.ReduceOp.SUM),
        dist.supports_complex(dist.ReduceOp.MAX),
        dist.default_pg_timeout.total_seconds(),
    ]


@case
def refusals(dist: Any, new: Any, rank: int, size: int) -> Any:
    one, two = new([1], "float32"), new([1], "float64")
    return [
        raises(ValueError, lambda: dist.init_process_group("gloo")),
        raises(TypeError, lambda: dist.all_reduce("text")),
        raises(TypeError, lambda: dist.all_reduce([one])),
        raises(TypeError, lambda: dist.all_gather(one, one)),
        raises(ValueError, lambda: dist.all_gather([one, two, two], one)),
        raises(ValueError, lambda: dist.broadcast(one)),
        raises(ValueError, lambda: dist.broadcast(one, 0, group_src=0)),
        raises(RuntimeError, lambda: dist.broadcast(one, 17)),
        raises(ValueError, lambda: dist.send(one, rank)),
        raises(ValueError, lambda: dist.gather(one, [one] if rank != 0 else None)),
        raises(ValueError, lambda: dist.scatter(one, [one] if rank != 0 else None)),
        raises(ValueError, lambda: dist.P2POp(dist.send, one, 0)),
        raises(ValueError, lambda: dist.batch_isend_irecv([1])),
        raises(TypeError, lambda: dist.new_group([0], timeout=5)),
        raises(ValueError, lambda: dist.new_group([0, 0])),
        raises(ValueError, lambda: dist.new_group([0, 99])),
        raises(ValueError, lambda: dist.new_subgroups()),
        raises(ValueError, lambda: dist.new_subgroups(group_size=2)),
        raises(ValueError, lambda: dist.new_subgroups(group_size=-1)),
        raises(ValueError, lambda: dist.new_subgroups_by_enumeration([])),
        raises(ValueError, lambda: dist.split_group(split_ranks=[])),
        raises(ValueError, lambda: dist.scatter_object_list([], None)),
        raises(TypeError, lambda: dist.monitored_barrier(timeout=3)),
        raises(RuntimeError, lambda: dist.get_node_local_rank()),
    ]


@case
def monitored(dist: Any, new: Any, rank: int, size: int) -> Any:
    return dist.monitored_barrier(timeout=timedelta(seconds=30))


def main(kind: str, rank: int, size: int, file: str) -> None:
    if kind == "torch":
        import torch
        import torch.distributed as dist

        def new(values: Any, dtype: str) -> Any:
            return torch.tensor(values, dtype=getattr(torch, dtype))
    else:
        import numpy as np

        import unisono.distributed as dist

        def new(values: Any, dtype: str) -> Any:
            return np.array(values, dtype=dtype)

    before = [dist.is_initialized(), raises(ValueError, dist.get_rank)]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{file}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=50),
    )
    results = {name: run(dist, new, rank, size) for name, run in CASES.items()}
    dist.barrier()
    dist.destroy_process_group()
    results["around"] = [*before, dist.is_initialized(), raises(ValueError, dist.get_world_size)]
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
