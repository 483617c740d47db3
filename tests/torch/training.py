"""How PyTorch trains models on several ranks: what remains of small ones after a few steps.

Every function runs as every rank and returns the parameters, by the name of the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

Parameters = dict[str, torch.Tensor]
STEPS = 4


def layers() -> nn.Sequential:
    torch.manual_seed(7)
    parts = [nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)]
    return nn.Sequential(*parts)


def untrained(rank: int, size: int) -> Parameters:
    return parameters(layers())


def train(model: nn.Module, rank: int, steps: int = STEPS, optimizer: Any = None) -> None:
    """Other data on every rank, the same in every run."""
    torch.manual_seed(100 + rank)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 8)).float().square().mean().backward()
        optimizer.step()


def parameters(model: nn.Module) -> Parameters:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def fsdp(rank: int, size: int) -> dict[str, Parameters]:
    """FSDP2: plain, with numbers of 16 bit, and in two groups that hold the same."""
    line = init_device_mesh("cpu", (size,))
    square = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("same", "parts"))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    wide = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return {
        "float32": sharded(rank, mesh=line),
        "bfloat16": sharded(rank, mesh=line, mp_policy=half),
        "bfloat16, added as float32": sharded(rank, mesh=line, mp_policy=wide),
        "hsdp": sharded(rank, mesh=square),
        "hsdp of bfloat16": sharded(rank, mesh=square, mp_policy=half),
    }


def sharded(rank: int, **options: Any) -> Parameters:
    model = shard(layers(), **options)
    train(model, rank)
    return {name: value.full_tensor().detach() for name, value in model.named_parameters()}


def shard(model: nn.Sequential, **options: Any) -> nn.Sequential:
    for part in model:
        if isinstance(part, nn.Linear):
            fully_shard(part, **options)
    fully_shard(model, **options)
    return model


def divided(rank: int, size: int) -> dict[str, Parameters]:
    """Gradients of FSDP2 that are divided by a number of the user's: one step, not applied."""
    gradients = {}
    for factor in (size, 3):
        model = shard(layers(), mesh=init_device_mesh("cpu", (size,)))
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(float(factor))
        torch.manual_seed(100 + rank)
        model(torch.randn(6, 8)).square().mean().backward()
        found = {name: value.grad for name, value in model.named_parameters()}
        gradients[str(factor)] = {name: value.full_tensor() for name, value in found.items()}
    return gradients


class Branches(nn.Module):  # type: ignore[misc]
    """Uses one of its halves: which one depends on the rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.first = layers()
        self.halves = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)])
        self.chosen = rank % 2  # the third is used by nobody

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.halves[self.chosen](self.first(data))


class Words(nn.Module):  # type: ignore[misc]
    """An embedding whose gradient has only the rows that were looked up."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.words = nn.Embedding(20, 4, sparse=True)
        self.last = nn.Linear(4, 2)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.last(self.words((data * 10).long() % 20))


class Rotation(nn.Module):  # type: ignore[misc]
    """Has a complex parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.factors = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))
        self.last = nn.Linear(8, 2)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.last((data.to(torch.complex64) @ self.factors).abs())


class Recomputed(nn.Module):  # type: ignore[misc]
    """Keeps nothing of its middle: computes it once more on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = layers()

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        half = checkpoint(self.parts[:3], data, use_reentrant=False)
        return self.parts[3:](half)


def ddp_ways(rank: int, size: int) -> dict[str, Parameters]:
    """What DDP can be told."""

    def trained(model: nn.Module, **options: Any) -> Parameters:
        train(DistributedDataParallel(model, bucket_cap_mb=0.001, **options), rank)
        return parameters(model)

    def hooked(state: object, hook: Callable[..., Any]) -> Parameters:
        model = layers()
        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(state, hook)
        train(parallel, rank)
        return parameters(model)

    small = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2)
    return {
        "unused": trained(Branches(rank), find_unused_parameters=True),
        "static": trained(layers(), static_graph=True),
        "views": trained(layers(), gradient_as_bucket_view=True),
        "sparse": trained(Words()),
        "complex": trained(Rotation()),
        "computed again": trained(Recomputed(), static_graph=True),
        "float16 on the way": hooked(None, default_hooks.fp16_compress_hook),
        "PowerSGD": hooked(small, powerSGD_hook.powerSGD_hook),
    }


def compiled(rank: int, size: int) -> dict[str, Parameters]:
    """DDP whose model PyTorch has compiled, and the same as it is."""
    ways = {}
    for way in ("eager", "compiled"):
        model = layers()
        parallel: Any = DistributedDataParallel(model)
        if way == "compiled":
            parallel = torch.compile(parallel, backend="aot_eager")
        train(parallel, rank)
        ways[way] = parameters(model)
    return ways


def uneven(rank: int, size: int) -> dict[str, Parameters]:
    """Ranks that have data for different numbers of steps."""
    model = layers()
    parallel = DistributedDataParallel(model)
    with parallel.join():
        train(parallel, rank, steps=2 + rank)
    return {"join": parameters(model)}


def zero(rank: int, size: int) -> dict[str, Parameters]:
    """An optimizer whose state is spread over the ranks, and collected in the end."""
    model = layers()
    parallel = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.SGD, lr=0.05, momentum=0.9
    )
    train(parallel, rank, optimizer=optimizer)
    optimizer.consolidate_state_dict(to=0)
    told: list[Any] = [optimizer.state_dict()["state"] if rank == 0 else None]
    dist.broadcast_object_list(told, src=0)
    momenta = {f"momentum {key}": kept["momentum_buffer"] for key, kept in told[0].items()}
    return {"ZeRO": {**parameters(model), **momenta}}


def every_way(rank: int, size: int) -> dict[str, Parameters]:
    """All that gloo can do as well."""
    ways = (fsdp, ddp_ways, uneven, zero)
    return {name: found for way in ways for name, found in way(rank, size).items()}


def once_more(rank: int, size: int) -> dict[str, Parameters]:
    return every_way(rank, size)
