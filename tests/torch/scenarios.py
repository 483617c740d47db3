"""What the ranks of the tests do. Each function runs as every rank of a world and returns what the
tests compare: between backends, or with what it should be.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from tests.signals import signal_inside

Results = dict[str, Any]

# What gloo can reduce, too.
COMMON = "float32 float64 float16 bfloat16 int8 uint8 int32 int64".split()
# What only this backend can.
OWN = "int16 uint16 uint32 uint64 complex64 complex128".split()


def values(rank: int, dtype: str, count: int = 7) -> torch.Tensor:
    """Small whole numbers that differ by rank and place: every type has them exactly."""
    numbers = [(rank + 2) * (place + 1) % 5 + 1 for place in range(count)]
    return torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, dtype))


def all_collectives(rank: int, size: int) -> Results:
    """Every collective on every type that gloo has."""
    results: Results = {}
    for dtype in COMMON:
        every_copy(rank, size, dtype, results)
        every_reduction(rank, size, dtype, results)
    return results


def own_types(rank: int, size: int) -> Results:
    results: Results = {}
    for dtype in OWN:
        every_copy(rank, size, dtype, results)
        tensor = values(rank, dtype)
        dist.all_reduce(tensor)
        results[f"all_reduce {dtype}"] = tensor
    for dtype in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "bool"):
        tensor = values(rank, dtype)
        dist.broadcast(tensor, 1)
        results[f"broadcast {dtype}"] = tensor.to(torch.float32)
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    results["sum of flags"] = flags.view(torch.uint8)
    return results


def every_copy(rank: int, size: int, dtype: str, results: Results) -> None:
    """The collectives that only move elements."""
    mine = values(rank, dtype)
    tensor = mine.clone()
    dist.broadcast(tensor, size - 1)
    results[f"broadcast {dtype}"] = tensor
    outputs = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(outputs, mine)
    results[f"all_gather {dtype}"] = outputs
    single = torch.empty(size * 7, dtype=mine.dtype)
    dist.all_gather_single(single, mine)
    results[f"all_gather_single {dtype}"] = single
    gathered = [torch.empty_like(mine) for _ in range(size)] if rank == 1 else None
    dist.gather(mine, gathered, dst=1)
    results[f"gather {dtype}"] = gathered
    parts = [values(to, dtype) for to in range(size)] if rank == 0 else None
    output = torch.empty_like(mine)
    dist.scatter(output, parts, src=0)
    results[f"scatter {dtype}"] = output
    whole = values(rank, dtype, size * 3)
    shuffled = torch.empty_like(whole)
    dist.all_to_all_single(shuffled, whole)
    results[f"all_to_all_single {dtype}"] = shuffled


def every_reduction(rank: int, size: int, dtype: str, results: Results) -> None:
    names = ["SUM", "MIN", "MAX"]
    if dtype != "bfloat16":  # gloo has no product of these
        names.append("PRODUCT")
    names += ["BAND", "BOR", "BXOR"] if "int" in dtype else ["AVG"]
    for name in names:
        op = getattr(dist.ReduceOp, name)
        tensor = values(rank, dtype)
        dist.all_reduce(tensor, op)
        results[f"all_reduce {dtype} {name}"] = tensor
    tensor = values(rank, dtype)
    dist.reduce(tensor, 1)
    results[f"reduce {dtype}"] = tensor if rank == 1 else None
    whole = values(rank, dtype, size * 3)
    part = torch.empty(3, dtype=whole.dtype)
    dist.reduce_scatter_single(part, whole)
    results[f"reduce_scatter_single {dtype}"] = part
    listed = torch.empty(3, dtype=whole.dtype)
    dist.reduce_scatter(listed, list(whole.chunk(size)))
    results[f"reduce_scatter {dtype}"] = listed


def coalesced(rank: int, size: int) -> Results:
    """Several tensors in one call, and calls in a bracket."""
    results: Results = {}
    tensors = [values(rank, "float32", count) for count in (1, 5, 9)]
    dist.all_reduce_coalesced(tensors)
    results["all_reduce_coalesced"] = tensors
    lists = [[torch.empty(2), torch.empty(4)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [values(rank, "float32", n) for n in (2, 4)])
    results["all_gather_coalesced"] = lists
    tensors = [values(rank, "float32", count) for count in (3, 8)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    results["manager"] = tensors
    return results


def brackets(rank: int, size: int) -> Results:
    """Different calls between startCoalescing and endCoalescing."""
    tensor, other = values(rank, "float32"), values(rank, "float32", 3)
    theirs = torch.empty(4)
    group = dist.group.WORLD
    with dist._coalescing_manager(group, device=torch.device("cpu")):
        dist.broadcast(other, 0)
        dist.reduce(tensor, 0)
        dist.isend(values(rank, "float32", 4), (rank + 1) % size)
        dist.irecv(theirs, (rank - 1) % size)
    return {"broadcast": other, "reduce": tensor, "recv": theirs}


def strided(rank: int, size: int) -> Results:
    """Tensors whose elements do not lie one after the other, in all places."""
    results: Results = {}

    def columns() -> torch.Tensor:
        return values(rank, "float32", 12).reshape(3, 4)[:, ::2]

    def turned() -> torch.Tensor:
        return torch.empty(2, 3).t()

    tensor = columns()
    dist.all_reduce(tensor)
    results["all_reduce"] = tensor.contiguous()
    layout = columns() if rank == 0 else columns().contiguous()
    dist.broadcast(layout, 0)
    results["broadcast"] = layout.contiguous()
    outputs = [turned() for _ in range(size)]
    dist.all_gather(outputs, columns())
    results["all_gather"] = [output.contiguous() for output in outputs]
    output = turned()
    dist.scatter(output, [columns() for _ in range(size)] if rank == 0 else None, src=0)
    results["scatter"] = output.contiguous()
    return results


def odd_sizes(rank: int, size: int) -> Results:
    """Nothing at all, single elements, uneven shares."""
    results: Results = {}
    empty = torch.empty(0)
    dist.all_reduce(empty)
    dist.broadcast(empty, 0)
    dist.all_gather([torch.empty(0, 3) for _ in range(size)], torch.empty(0, 3))
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    results["scalar"] = scalar
    shares = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(shares, values(rank, "float32", rank + 1))
    results["all_gather"] = shares
    outputs = [torch.empty(rank + peer + 1) for peer in range(size)]
    dist.all_to_all(outputs, [values(rank, "float32", rank + peer + 1) for peer in range(size)])
    results["all_to_all"] = outputs
    stacked = torch.empty(size, 3)
    dist.all_gather_single(stacked, values(rank, "float32", 3))
    results["stacked"] = stacked
    rows = [peer + 1 for peer in range(size)]
    whole = values(rank, "float32", sum(rows))
    taken = torch.empty((rank + 1) * size)
    dist.all_to_all_single(taken, whole, [rank + 1] * size, rows)
    results["rows"] = taken
    return results


def averages(rank: int, size: int) -> Results:
    """Reductions that gloo refuses."""
    numbers = torch.tensor([rank + 1, 10 * rank], dtype=torch.int32)
    dist.all_reduce(numbers, dist.ReduceOp.AVG)
    scaled = torch.tensor([1.0 + rank])
    dist.all_reduce(scaled, dist.ReduceOp.PREMUL_SUM(0.5))
    part = torch.empty(1)
    factor = torch.tensor(2.0)
    dist.reduce_scatter_single(part, torch.ones(size), dist.ReduceOp.PREMUL_SUM(factor))
    return {"avg": numbers, "premul": scaled, "scattered": part}


def messages(rank: int, size: int) -> Results:
    """Point-to-point: tags out of order, anybody, both ends of a batch."""
    after, before = (rank + 1) % size, (rank - 1) % size
    works = [dist.isend(torch.full((3,), 10.0 * rank + tag), after, tag=tag) for tag in (1, 2)]
    second, first = torch.empty(3), torch.empty(3)
    assert dist.recv(second, before, tag=2) == before
    assert dist.recv(first, before, tag=1) == before
    for work in works:
        assert work is not None
        work.wait()
    anybody = torch.empty(2)
    others = [other for other in range(size) if other != rank]
    to_all = [dist.isend(torch.full((2,), float(rank)), other, tag=3) for other in others]
    sources = sorted(dist.recv(anybody, tag=3) for _ in others)
    for work in to_all:
        assert work is not None
        work.wait()
    batched = torch.empty(4)
    ops = [
        dist.P2POp(dist.irecv, batched, before),
        dist.P2POp(dist.isend, torch.full((4,), float(rank)), after),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return {"first": first, "second": second, "sources": sources, "batched": batched}


def profiled(rank: int, size: int) -> Results:
    """What a profiler sees of a collective and of a message from anybody."""
    with torch.autograd.profiler.profile() as seen:
        dist.all_reduce(torch.ones(3, 4))
        message = dist.isend(torch.ones(2), (rank + 1) % size, tag=4)
        dist.recv(torch.empty(2), tag=4)
        message.wait()
    events = seen.function_events
    return {"names": sorted(e.name for e in events if e.name.startswith("unisono:"))}


def futures(rank: int, size: int) -> Results:
    tensor = torch.ones(5) * (rank + 1)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda done: done.value()[0] * 2).wait()
    if dist.get_backend() != "gloo":  # it fulfils the future a moment before the work
        assert work.is_completed()
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(100)]
    for each in works:
        each.wait(timedelta(seconds=60))
    kept = [torch.full((2,), float(rank)) for _ in range(16)]
    for each in kept:
        dist.all_reduce(each, async_op=True)  # dropped: the barrier waits for it
    dist.barrier()
    outputs = [torch.empty(1) for _ in range(size)]
    gathered = dist.all_gather(outputs, torch.tensor([float(rank)]), async_op=True)
    listed = gathered.get_future().wait()
    return {"doubled": doubled, "kept": kept, "listed": listed}


def objects(rank: int, size: int) -> Results:
    everybody: list[Any] = [None] * size
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank})
    told: list[Any] = [f"from {rank}", rank]
    dist.broadcast_object_list(told, src=1)
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    return {"everybody": everybody, "told": told, "mine": mine}


def groups(rank: int, size: int) -> Results:
    """Groups of some of the ranks, in both ways of making them."""
    results: Results = {}
    low = dist.new_group([0, 1])
    high = dist.new_group(list(range(1, size)))
    for name, group in (("low", low), ("high", high)):
        if dist.get_rank(group) >= 0:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            results[name] = tensor
            results[f"{name} backend"] = dist.get_backend(group)
    world = dist.group.WORLD
    part = world.split_group([0, size - 1], timeout=timedelta(seconds=60))
    if rank in (0, size - 1):
        tensor = torch.tensor([10.0 + rank])
        part.allreduce([tensor]).wait()
        results["split"] = tensor
    dist.barrier()
    return results


def ddp(rank: int, size: int) -> Results:
    """A small model, trained on different data by every rank, twice."""
    return {"first": trained(rank), "again": trained(rank)}


def trained(rank: int) -> Results:
    """Without a bias before the norm, whose gradient would be nothing but rounding."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 20, bias=False),
        torch.nn.BatchNorm1d(20),
        torch.nn.ReLU(),
        torch.nn.Linear(20, 3),
    )
    parallel = torch.nn.parallel.DistributedDataParallel(
        model, bucket_cap_mb=0.001, gradient_as_bucket_view=True
    )
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(100 + rank)
    for _ in range(6):
        optimizer.zero_grad()
        parallel(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def sparse(rank: int, size: int) -> Results:
    indices = torch.tensor([[0, rank + 1, 0]])
    tensor = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]), (size + 2,))
    dist.all_reduce(tensor)
    return {"sum": tensor.to_dense()}


def tell(event: str) -> None:
    """Lets wait_for() of other ranks return: by the store, while the group is out of order."""
    dist.distributed_c10d._get_default_store().set(event, "")


def wait_for(event: str) -> None:
    dist.distributed_c10d._get_default_store().wait([event], timedelta(seconds=60))


def refusal_of(call: Callable[[], object]) -> str:
    """What a call is refused with."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "not refused"


def refusals(rank: int, size: int) -> Results:
    """Wrong calls, which leave the group usable."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    one, two = torch.ones(2), torch.ones(2)
    results: Results = {
        "no tensors": refusal_of(lambda: backend.allreduce([])),
        "too few": refusal_of(lambda: dist.all_gather([one], one)),
        "two types": refusal_of(lambda: backend.allreduce([one, torch.ones(2, dtype=torch.int32)])),
        "root": refusal_of(lambda: backend.broadcast(one, size)),
        "flags": refusal_of(lambda: dist.all_reduce(torch.tensor([True]), dist.ReduceOp.AVG)),
        "bits": refusal_of(lambda: dist.all_reduce(one, dist.ReduceOp.BAND)),
        "conjugated": refusal_of(lambda: backend.broadcast((one * 1j).conj(), 0)),
    }
    dist.all_reduce(two)
    results["afterwards"] = two
    return results


def mismatch(rank: int, size: int) -> Results:
    """Ranks that give different types."""
    tensor = torch.ones(4, dtype=torch.float32 if rank == 0 else torch.float64)
    return {"said": refusal_of(lambda: dist.all_reduce(tensor))}


def after_destroy(rank: int, size: int) -> Results:
    group = dist.group.WORLD
    dist.barrier()
    dist.destroy_process_group()
    tensor = torch.ones(1)
    return {
        "by name": refusal_of(lambda: dist.all_reduce(tensor)),
        "by group": refusal_of(lambda: group.allreduce([tensor]).wait()),
    }


def killed(rank: int, size: int) -> Results:
    """The last rank is killed while the others wait for it."""
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    said = refusal_of(lambda: dist.all_reduce(torch.ones(4)))
    return {"said": said, "seconds": time.monotonic() - begun}


def late(rank: int, size: int) -> Results:
    """One rank does not come to a barrier that has little time."""
    if rank != 0:
        wait_for("over")
        return {}
    said = refusal_of(lambda: dist.barrier(timeout=timedelta(milliseconds=300)))
    tell("over")
    return {"said": said}


def monitored(rank: int, size: int) -> Results:
    from unisono.torch import monitored_barrier

    monitored_barrier(timeout=timedelta(seconds=60))
    if rank == 1:
        wait_for("over")
        return {}
    said = refusal_of(lambda: monitored_barrier(timeout=timedelta(milliseconds=500)))
    if rank == 0:
        tell("over")
    return {"said": said}


def forked(rank: int, size: int) -> Results:
    """A child of a rank is refused, and takes nothing down when it goes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = refusal_of(lambda: dist.all_reduce(torch.ones(1)))
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return {"said": said, "sum": tensor}


def interrupted(rank: int, size: int) -> Results:
    """Ctrl-C ends a wait for a rank that does not come."""
    if rank != 0:
        wait_for("over")
        return {}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = "nothing"
    with signal_inside():
        try:
            dist.recv(torch.ones(1), 1)
        except BaseException as error:
            said = type(error).__name__
    tell("over")
    return {"said": said}


def accepted(rank: int, size: int) -> dict[str, str]:
    """Which types each operation takes."""
    reductions: dict[str, Any] = {
        name: getattr(dist.ReduceOp, name)
        for name in ("SUM", "MIN", "MAX", "PRODUCT", "AVG", "BAND", "BOR", "BXOR")
    }
    if dist.get_backend() != "gloo":  # it takes this one down
        reductions["PREMUL_SUM"] = dist.ReduceOp.PREMUL_SUM(2.0)
    results = {}
    for dtype in [*COMMON, *OWN, "bool", "float8_e4m3fn", "float8_e5m2"]:
        said = refusal_of(partial(dist.broadcast, values(0, dtype), 0))
        results[f"copy {dtype}"] = said
        for name, op in reductions.items():
            said = refusal_of(partial(dist.all_reduce, values(rank, dtype), op))
            results[f"{name} {dtype}"] = said
    return results
