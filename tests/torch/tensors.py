"""What PyTorch builds on collectives: tensors spread over ranks, collectives that are functions.

Every function runs as every rank and returns tensors by name. All numbers are small and whole: what
comes out does not depend on the order of additions.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import torch
import torch._dynamo  # once, before the ranks are forked
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn as differentiable
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

Results = dict[str, Any]

# Programs still have the names that PyTorch 2.13 calls old, and both lead to the same.
warnings.simplefilter("ignore", FutureWarning)


def numbers(*shape: int) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()) % 11 - 5.0).reshape(shape)


def spread(rank: int, size: int) -> Results:
    """DTensor: every placement becomes every other one, on a line and on a square of ranks."""
    line = init_device_mesh("cpu", (size,))
    square = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    results: Results = {"backends": [dist.get_backend(square.get_group(d)) for d in (0, 1)]}
    kinds: list[Placement] = [Shard(0), Shard(1), Replicate()]
    for shape in ((8, 4), (7, 5), (2, 3)):  # shares that are equal, uneven, empty
        for kind in kinds:
            from_kind(line, shape, kind, results)
    both = distribute_tensor(numbers(7, 5), square, [Shard(0), Shard(1)])
    results["square full"] = [both.full_tensor(), numbers(7, 5)]
    results["turned"] = both.redistribute(square, [Shard(1), Replicate()]).to_local()
    partial = DTensor.from_local(numbers(6, 4) + rank, square, [Partial(), Shard(0)])
    results["square of parts"] = partial.full_tensor()
    results |= products(line)
    return results


def from_kind(mesh: DeviceMesh, shape: tuple[int, int], kind: Placement, results: Results) -> None:
    whole = numbers(*shape)
    tensor = distribute_tensor(whole, mesh, [kind])
    name = f"{shape} {kind}"
    results[f"{name} full"] = [tensor.full_tensor(), whole]
    for other in (Shard(0), Shard(1), Replicate()):
        results[f"{name} to {other}"] = tensor.redistribute(mesh, [other]).to_local()
    rank = dist.get_rank()
    for op in ("sum", "avg", "max", "min"):
        part = DTensor.from_local(whole * (rank + 1), mesh, [Partial(op)])
        results[f"{shape} {op} to {kind}"] = part.redistribute(mesh, [kind]).to_local()


def products(mesh: DeviceMesh) -> Results:
    """A product of spread matrices, and its gradients."""
    left = distribute_tensor(numbers(6, 8), mesh, [Shard(1)]).requires_grad_()
    right = distribute_tensor(numbers(8, 4), mesh, [Shard(0)]).requires_grad_()
    product = left @ right
    product.redistribute(mesh, [Replicate()]).to_local().sum().backward()
    assert left.grad is not None and right.grad is not None
    return {
        "product full": [product.full_tensor().detach(), numbers(6, 8) @ numbers(8, 4)],
        "left": left.grad.full_tensor(),
        "right": right.grad.full_tensor(),
    }


def as_functions(data: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Functional collectives, which give new tensors."""
    group = dist.group.WORLD
    assert group is not None
    shares = [1 + (dist.get_rank() + peer) % 2 for peer in range(size)]
    return [
        functional.all_reduce(data, "sum", group),
        functional.all_reduce(data, "avg", group),
        functional.all_gather_tensor(data, 0, group),
        functional.all_gather_tensor(data, 1, group),
        functional.reduce_scatter_tensor(data, "sum", 0, group),
        functional.reduce_scatter_tensor(data, "max", 1, group),
        functional.all_to_all_single(data, None, None, group),
        functional.all_to_all_single(data[: sum(shares)], shares, shares, group),
        functional.broadcast(data, 1, group),
        *functional.all_reduce_coalesced([data, data * 2], "sum", group),
        *functional.all_gather_into_tensor_coalesced([data, data * 2], group),
        *functional.reduce_scatter_tensor_coalesced([data, data * 2], "sum", [0, 0], group),
    ]


def functions(rank: int, size: int) -> Results:
    data = numbers(2 * size, size) * (rank + 1)
    eager = as_functions(data, size)
    compiled = torch.compile(as_functions, backend="aot_eager", fullgraph=True)(data, size)
    return {
        "eager": [result + 0 for result in eager],
        "compiled": [result + 0 for result in compiled],
    }


def gradients(rank: int, size: int) -> Results:
    """torch.distributed.nn: collectives with gradients."""

    def both(name: str, data: torch.Tensor, result: Any) -> None:
        parts = [result] if isinstance(result, torch.Tensor) else list(result)
        weighted = sum((part * (place + rank + 1)).sum() for place, part in enumerate(parts))
        data.grad = None
        torch.as_tensor(weighted).backward()
        results[name] = [*(part.detach() for part in parts), data.grad]

    results: Results = {}
    data = (numbers(size, 3) * (rank + 1)).requires_grad_()
    rows = list(data.unbind())
    empty = [torch.empty(3) for _ in range(size)]
    both("all_reduce", data, differentiable.all_reduce(data * 1))
    both("broadcast", data, differentiable.broadcast(data * 1, 1))
    both("reduce", data, differentiable.reduce(data * 1, 1))
    if rank != 1:
        results["reduce"].pop(0)  # of use on the root only
    both("all_gather", data, differentiable.all_gather(data * 1))
    both("gather", data, differentiable.gather(data * 1, 1))
    both("scatter", data, differentiable.scatter([row * 1 for row in rows], 1))
    rows = list(data.unbind())
    both("reduce_scatter", data, differentiable.reduce_scatter(torch.empty(3), rows))
    rows = list(data.unbind())
    both("all_to_all", data, differentiable.all_to_all(empty, rows))
    whole = torch.empty(size, 3)
    both("all_to_all_single", data, differentiable.all_to_all_single(whole, data * 1))
    return results


def large_objects(rank: int, size: int) -> Results:
    """Objects of megabytes, of different sizes; and what they were."""

    def brought(by: int) -> bytes:
        return bytes([by + 1]) * (9_000_000 + 1_000_001 * by)

    def what(thing: Any) -> str:
        return f"{len(thing)} {hashlib.sha256(thing).hexdigest()}"

    everybody: list[Any] = [None] * size
    dist.all_gather_object(everybody, brought(rank))
    told: list[Any] = [brought(rank), brought(0)]
    dist.broadcast_object_list(told, src=1)
    collected: list[Any] | None = [None] * size if rank == 2 else None
    dist.gather_object(brought(rank), collected, dst=2)
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [brought(r) for r in range(size)] if rank == 0 else None, src=0)
    passed: list[Any] = [brought(rank)]
    if rank == 0:
        dist.send_object_list(passed, dst=1)
    elif rank == 1:
        dist.recv_object_list(passed, src=0)
    return {
        "everybody": [what(thing) for thing in everybody],
        "told": [what(thing) for thing in told],
        "collected": [what(thing) for thing in collected or []],
        "mine": what(mine[0]),
        "passed": what(passed[0]),
    }
