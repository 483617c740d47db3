"""Where tensors lie: in memory that all ranks of a host reach, in PyTorch's shared memory, or in
that of a rank alone.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

Results = dict[str, Any]
CPU = torch.device("cpu")
MANY = 300  # more than a rank has blocks for
LAYERS = 3
SHARED = torch.arange(8.0).share_memory_()  # the same memory in all ranks, which are forks


def chain(rank: int, count: int, **options: Any) -> tuple[nn.Module, Results]:
    """Trains a model that has a bucket for every layer; how many buckets, and what it became."""
    torch.manual_seed(3)
    model = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(count)))
    with torch.no_grad():
        for layer in model:
            layer.weight.mul_(0.1).add_(torch.eye(16))
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.0005, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    torch.manual_seed(50 + rank)
    for _ in range(3):  # buckets are made anew after the first
        parallel(torch.randn(4, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    buckets = parallel._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(",")
    return model, {"buckets": len(buckets), "last": model[-1].weight.detach().clone()}


def hundred_buckets(rank: int, size: int) -> Results:
    return {
        "100": chain(rank, 100)[1],
        "100 in view": chain(rank, 100, gradient_as_bucket_view=True)[1],
        "many in view": chain(rank, MANY, gradient_as_bucket_view=True)[1],
    }


def uses() -> int:
    """How many operations have found what this rank gives in registered memory."""
    found: int = dist.group.WORLD._get_backend(CPU).registered_uses
    return found


def wide_layers() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(LAYERS)))


def trained(model: nn.Module, rank: int) -> Results:
    """A few steps: how many operations used registered memory in each, and what is left."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(50 + rank)
    counts = []
    for _ in range(4):
        before = uses()
        model(torch.randn(4, 64)).square().mean().backward()
        counts.append(uses() - before)
        optimizer.step()
        optimizer.zero_grad()
    last = next(model.parameters()).detach()
    return {"uses": counts, "weights": last.full_tensor() if hasattr(last, "full_tensor") else last}


def sharded(rank: int, size: int) -> Results:
    """FSDP2 and DDP, as they are, and FSDP2 that its user has told not to use such memory."""
    results: Results = {"ddp": trained(DistributedDataParallel(wide_layers()), rank)}
    for way in ("as it is", "told not to"):
        model = wide_layers()
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        if way == "told not to":
            for part in model.modules():
                if isinstance(part, FSDPModule):
                    part.set_allocate_memory_from_process_group_for_comm(False)
        results[way] = trained(model, rank)
    return results


def used_up(rank: int, size: int) -> Results:
    """One rank has no more blocks: what it gets then is ordinary memory, and as good."""
    count = MANY if rank == 0 else 1
    backend = dist.group.WORLD._get_backend(CPU)
    kept = [backend.allocate_tensor(1000, dtype=torch.float32, device=CPU) for _ in range(count)]
    kept[-1].fill_(rank + 1)
    dist.all_reduce(kept[-1])
    return {"sum": kept[-1].clone(), "size": kept[-1].numel()}


def shared(rank: int, size: int) -> Results:
    """Tensors in PyTorch's shared memory: the same one given by all ranks, and one of each."""
    outputs = [torch.empty_like(SHARED) for _ in range(size)]
    dist.all_gather(outputs, SHARED)
    own = torch.full((8,), rank + 1.0).share_memory_()
    dist.all_reduce(own)
    dist.broadcast(SHARED, 0)
    return {"gathered": outputs, "own": own.clone(), "same": SHARED.clone()}


class Gradients(torch.utils.data.Dataset):  # type: ignore[misc]
    """Reads a gradient in the workers of a loader, which are forks of a rank."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, float]:
        first = next(self.model.parameters())
        return os.getpid(), float(first.grad.sum()) if first.grad is not None else -1.0


def loader(rank: int, size: int) -> Results:
    """A gradient that lies in a registered bucket is seen by forked workers; training goes on."""
    model = nn.Linear(4, 1, bias=False)
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    parallel(torch.full((1, 4), 1.0 + rank)).sum().backward()
    batches = list(torch.utils.data.DataLoader(Gradients(model), batch_size=2, num_workers=2))
    seen = [float(value) for _, found in batches for value in found]
    workers = {int(pid) for pids, _ in batches for pid in pids}
    parallel(torch.full((1, 4), 1.0 + rank)).sum().backward()
    grad = model.weight.grad
    assert grad is not None
    return {"seen": seen, "own": os.getpid() in workers, "after": float(grad.sum())}
