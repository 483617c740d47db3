"""Ranks that do not call the same thing: every collective, and what one of them does differently.

Each disagreement is the end of a group, so each has a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from tests.torch.scenarios import refusal_of

LIMIT = timedelta(seconds=30)  # what is not noticed ends by it, as an error of another kind
ODD = 1  # the rank that disagrees with all others


@dataclass(frozen=True)
class Call:
    """What a rank calls an operation with."""

    group: Any
    size: int
    rank: int
    count: int
    dtype: torch.dtype = torch.float32
    op: Any = dist.ReduceOp.SUM
    root: int = 0

    def one(self, times: int = 1) -> torch.Tensor:
        return torch.ones(self.count * times, dtype=self.dtype)

    def each(self) -> list[torch.Tensor]:
        return [self.one() for _ in range(self.size)]

    def at_root(self) -> list[torch.Tensor] | None:
        return self.each() if self.rank == self.root else None


Operation = Callable[[Call], object]
OPERATIONS: dict[str, Operation] = {
    "all_reduce": lambda c: dist.all_reduce(c.one(), c.op, c.group),
    "all_reduce_coalesced": lambda c: dist.all_reduce_coalesced([c.one(), c.one()], c.op, c.group),
    "broadcast": lambda c: dist.broadcast(c.one(), c.root, c.group),
    "reduce": lambda c: dist.reduce(c.one(), c.root, c.op, c.group),
    "all_gather": lambda c: dist.all_gather(c.each(), c.one(), c.group),
    "all_gather_single": lambda c: dist.all_gather_single(c.one(c.size), c.one(), c.group),
    "all_gather_coalesced": lambda c: dist.all_gather_coalesced(
        [[one] for one in c.each()], [c.one()], c.group
    ),
    "gather": lambda c: dist.gather(c.one(), c.at_root(), c.root, c.group),
    "scatter": lambda c: dist.scatter(c.one(), c.at_root(), c.root, c.group),
    "reduce_scatter": lambda c: dist.reduce_scatter(c.one(), c.each(), c.op, c.group),
    "reduce_scatter_single": lambda c: dist.reduce_scatter_single(
        c.one(), c.one(c.size), c.op, c.group
    ),
    "all_to_all": lambda c: dist.all_to_all(c.each(), c.each(), c.group),
    "all_to_all_single": lambda c: dist.all_to_all_single(
        c.one(c.size), c.one(c.size), group=c.group
    ),
    "barrier": lambda c: dist.barrier(c.group),
}

ROOTED = {"broadcast", "reduce", "gather", "scatter"}
REDUCING = {
    *("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_single"),
}
SMALL, LARGE = 6, 60_000  # elements: lines in shared memory, or blocks


def ways(name: str) -> list[str]:
    """What ranks can disagree about in an operation."""
    if name == "barrier":
        return ["operation"]
    about = ["operation", "type", "size"]
    return about + ["root"] * (name in ROOTED) + ["reduction"] * (name in REDUCING)


def carry_out(name: str, about: str, call: Call) -> None:
    """The call of one rank; and a barrier, for those who were done before it was noticed."""
    if call.rank == ODD:
        name, call = differently(name, about, call)
    OPERATIONS[name](call)
    dist.barrier(call.group)


def differently(name: str, about: str, call: Call) -> tuple[str, Call]:
    if about == "operation":
        return "all_gather_single" if name != "all_gather_single" else "all_reduce", call
    changes: dict[str, dict[str, Any]] = {
        "type": {"dtype": torch.float64},
        "size": {"count": call.count + 2},
        "root": {"root": 2},
        "reduction": {"op": dist.ReduceOp.MAX},
    }
    return name, replace(call, **changes[about])


def table(rank: int, size: int, counts: tuple[int, ...]) -> dict[str, str]:
    said = {}
    for name in OPERATIONS:
        for about in ways(name):
            for count in counts:
                group = dist.new_group(list(range(size)), timeout=LIMIT)
                call = Call(group, size, rank, count)
                said[f"{name}, {about}, {count}"] = refusal_of(
                    partial(carry_out, name, about, call)
                )
    return said


def all_of_them(rank: int, size: int) -> dict[str, str]:
    return table(rank, size, (SMALL, LARGE))


def between_hosts(rank: int, size: int) -> dict[str, str]:
    """Those who do not hear from each other ask."""
    return table(rank, size, (SMALL,))
