"""What users do wrong, or only unusually, as ranks of a world; and what is said about it."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.signals import signal_inside
from tests.torch.scenarios import refusal_of, tell, wait_for

Results = dict[str, Any]
CPU = torch.device("cpu")


def backend_of_cpu() -> Any:
    return dist.group.WORLD._get_backend(CPU)


def wrong(rank: int, size: int) -> Results:
    """Calls that make no sense; the group goes on."""
    backend = backend_of_cpu()
    group = dist.group.WORLD
    one, ints = torch.ones(2), torch.ones(2, dtype=torch.int32)
    elsewhere = torch.empty(2, device="meta")  # as good as one on a GPU
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)
    strided = torch.ones(2 * size, 2)[:, 0]

    def in_scope() -> None:
        group._start_coalescing(CPU)
        try:
            group.allreduce([sparse])
        finally:
            group._end_coalescing(CPU)

    said = {
        "device": refusal_of(lambda: backend.allreduce([elsewhere])),
        "two types": refusal_of(lambda: backend.allreduce([one, ints])),
        "gathered type": refusal_of(lambda: backend.allgather([[ints] * size], [one])),
        "outputs": refusal_of(lambda: backend.allgather([[one.clone()] * (size + 1)], [one])),
        "size": refusal_of(lambda: backend.reduce_scatter([one], [[torch.ones(3)] * size])),
        "root": refusal_of(lambda: backend.reduce(one, -1)),
        "peer": refusal_of(lambda: backend.send([one], size, 0)),
        "sparse in a scope": refusal_of(in_scope),
        "strided": refusal_of(
            lambda: dist.all_to_all_single(torch.empty(2 * size), strided),
        ),
    }
    dist.all_reduce(one)
    return {**said, "afterwards": one}


def numbers(rank: int, size: int) -> Results:
    """The number of the latest operation: one more for each, of whatever kind."""
    backend = backend_of_cpu()
    seen = [backend._get_sequence_number_for_group()]
    works = [
        dist.all_reduce(torch.ones(1), async_op=True),
        dist.isend(torch.ones(1), (rank + 1) % size),
        dist.irecv(torch.empty(1), (rank - 1) % size),
        dist.barrier(async_op=True),
    ]
    seen.append(backend._get_sequence_number_for_group())
    for work in works:
        assert work is not None
        work.wait()
    dist.all_reduce(torch.ones(1))
    seen.append(backend._get_sequence_number_for_group())
    return {"steps": [number - seen[0] for number in seen]}


def in_callbacks(rank: int, size: int) -> Results:
    """Exceptions in what is done with a result."""

    def fails(_: object) -> None:
        raise ValueError("the user's own")

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(fails)
    said = refusal_of(future.wait)
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    model.register_comm_hook(None, lambda _, bucket: fails(bucket))
    in_hook = refusal_of(lambda: model(torch.ones(1, 2)).sum().backward())
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return {"then": said, "hook": in_hook, "afterwards": tensor}


def kept_works(rank: int, size: int) -> Results:
    """Works that are asked when their group has gone, and the backend with it."""
    tensor = torch.ones(1)
    done = dist.all_reduce(tensor, async_op=True)
    done.wait()
    dist.barrier()
    pending = dist.irecv(torch.empty(1), (rank + 1) % size) if rank == 0 else None
    backend = weakref.ref(backend_of_cpu())
    if rank == 0:
        backend_of_cpu().abort()
        tell("aborted")
    else:
        wait_for("aborted")
    dist.destroy_process_group()
    gc.collect()
    results: Results = {"done": done.wait(), "sum": done.result()[0], "gone": backend() is None}
    if pending is not None:
        results["pending"] = refusal_of(pending.wait)
    return results


def dropped_backend(rank: int, size: int) -> Results:
    """The last reference to a backend is Python's, and a callback needs Python."""
    ran = threading.Event()
    group = dist.new_group(list(range(size)))
    backend = group._get_backend(CPU)
    works = [backend.allreduce([torch.ones(1)]) for _ in range(20)]
    works[-1].get_future().then(lambda _: ran.set())
    dist.destroy_process_group(group)
    del works, group, backend
    gc.collect()
    return {"ran": ran.wait(60)}


def one_more(rank: int, size: int) -> Results:
    """Inference mode, and a wait that is too short: it may be repeated."""
    with torch.inference_mode():
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        outputs = [torch.empty(2) for _ in range(size)]
        dist.all_gather(outputs, tensor)
    message = torch.zeros(1)
    if rank != 0:
        wait_for("waited")
        dist.send(torch.ones(1), 0)
        return {"sum": tensor.clone()}
    work = dist.irecv(message, 1)
    assert work is not None
    short = refusal_of(lambda: work.wait(timedelta(milliseconds=1)))
    tell("waited")
    work.wait(timedelta(seconds=60))
    return {"sum": outputs[-1].clone(), "short": short, "message": message}


def both_backends(rank: int, size: int) -> Results:
    """gloo and unisono in one process, and both in one program's calls."""
    gloo = dist.new_group(list(range(size)), backend="gloo")
    results: Results = {"names": [dist.get_backend(), dist.get_backend(gloo)]}
    for name, group in (("gloo", gloo), ("world", None), ("gloo again", gloo)):
        tensor = torch.tensor([rank + 1.0])
        dist.all_reduce(tensor, group=group)
        results[name] = tensor
    DistributedDataParallel(torch.nn.Linear(2, 2), process_group=gloo)(torch.ones(1, 2))
    return results


def absent(rank: int, size: int) -> Results:
    """One rank does not come to a collective; those who wait are told which one it is."""
    if rank == size - 1:
        wait_for("over")
        return {}
    dist.group.WORLD.set_timeout(timedelta(seconds=2))
    said = refusal_of(lambda: dist.all_reduce(torch.ones(1)))
    if rank == 0:
        tell("over")
    return {"said": said}


def interrupted(rank: int, size: int) -> Results:
    """SIGINT ends a collective and a wait for a work, while others do not come."""
    groups = {name: dist.new_group(list(range(size))) for name in ("wait", "collective")}
    if rank != 0:
        wait_for("over")
        return {}
    said = {}
    for name, group in groups.items():  # one each: what was half done ends its group
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with signal_inside():
            try:
                if name == "wait":
                    dist.all_reduce(torch.ones(1), group=group, async_op=True).wait()
                else:
                    dist.all_reduce(torch.ones(1), group=group)
                said[name] = "nothing"
            except BaseException as error:
                said[name] = type(error).__name__
    for group in groups.values():
        group._get_backend(CPU).abort()  # what was not waited for may still be under way
    tell("over")
    return said
