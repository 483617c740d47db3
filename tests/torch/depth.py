"""Many operations under way at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

DEEP = 1000


def stress(rank: int, size: int) -> dict[str, Any]:
    """Each kind a thousand times, waited for from the last to the first."""
    results: dict[str, Any] = {}
    numbers = [torch.full((3,), float(rank + i)) for i in range(DEEP)]
    waited([dist.all_reduce(each, async_op=True) for each in numbers])
    results["all_reduce"] = torch.stack(numbers)
    numbers = [torch.full((3,), float(rank * i)) for i in range(DEEP)]
    waited([dist.reduce(each, i % size, async_op=True) for i, each in enumerate(numbers)])
    results["reduce"] = torch.stack(numbers[rank::size])
    numbers = [torch.full((2,), float(rank - i)) for i in range(DEEP)]
    waited([dist.broadcast(each, i % size, async_op=True) for i, each in enumerate(numbers)])
    results["broadcast"] = torch.stack(numbers)
    outputs = [[torch.empty(2) for _ in range(size)] for _ in range(DEEP)]
    mine = [torch.full((2,), float(10 * rank + i)) for i in range(DEEP)]
    waited([dist.all_gather(o, m, async_op=True) for o, m in zip(outputs, mine, strict=True)])
    results["all_gather"] = torch.stack([torch.stack(each) for each in outputs])
    taken = [outputs[i] if rank == i % size else None for i in range(DEEP)]
    waited([dist.gather(mine[i], taken[i], dst=i % size, async_op=True) for i in range(DEEP)])
    results["gather"] = torch.stack([torch.stack(each) for each in taken if each is not None])
    given = [[m + to for to in range(size)] if rank == 0 else None for m in mine]
    shares = [torch.empty(2) for _ in range(DEEP)]
    waited([dist.scatter(shares[i], given[i], src=0, async_op=True) for i in range(DEEP)])
    results["scatter"] = torch.stack(shares)
    came = [torch.empty(2) for _ in range(DEEP)]
    receives = [dist.irecv(each, (rank - 1) % size, tag=i) for i, each in enumerate(came)]
    sends = [dist.isend(each, (rank + 1) % size, tag=i) for i, each in enumerate(mine)]
    waited([*sends, *receives])
    results["messages"] = torch.stack(came)
    return results


def waited(works: list[Any]) -> None:
    for work in reversed(works):
        work.wait()
