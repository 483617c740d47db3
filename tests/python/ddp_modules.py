"""Modules that both sides train, and inputs that differ on each rank and in each step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def dice(rank: int, step: int) -> Any:
    return torch.Generator().manual_seed(1000 * rank + step)


def inputs(rank: int, step: int, width: int = 5) -> Any:
    return torch.randn(8, width, generator=dice(rank, step))


def network() -> nn.Module:
    """Four layers, of which two fill a bucket each."""
    widths = (5, 32, 32, 32, 3)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers)


class Branches(nn.Module):  # type: ignore[misc]
    """Layers of which each call uses those that it names, in that order, also several times."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(16, 16) for name in "abc"})

    def forward(self, values: Any, names: str) -> Any:
        for name in names:
            values = torch.tanh(self.layers[name](values))
        return values


class Twice(nn.Module):  # type: ignore[misc]
    """A layer under two checkpoints, by each of which its gradients become ready."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.last = nn.Linear(5, 2)

    def forward(self, values: Any) -> Any:
        for _ in range(2):
            values = torch.tanh(checkpoint(self.first, values, use_reentrant=True))
        return self.last(values)


class Scales(nn.Module):  # type: ignore[misc]
    """Parameters whose gradients are the inputs themselves, to the bit; complex ones conjugated."""

    def __init__(self, *shapes: tuple[int, ...], types: Sequence[Any] = (torch.float32,)) -> None:
        super().__init__()
        self.scales = nn.ParameterList(
            nn.Parameter(torch.zeros(shape, dtype=types[at % len(types)]))
            for at, shape in enumerate(shapes)
        )

    def forward(self, given: list[Any]) -> Any:
        return sum(
            (scale * values).sum().real.double()
            for scale, values in zip(self.scales, given, strict=True)
        )

    def inputs(self, rank: int, step: int) -> list[Any]:
        """Between 1/2 and 2 or -1/2 and -2, so that nothing is lost in 16 bits by halving it."""
        random = dice(rank, step)

        def one(scale: Any) -> Any:
            parts = [torch.rand(scale.shape, generator=random) * 1.5 + 0.5 for _ in range(2)]
            signs = torch.randint(0, 2, scale.shape, generator=random) * 2 - 1
            if scale.is_complex():
                return (torch.complex(*parts) * signs).to(scale.dtype)
            return (parts[0] * signs).to(scale.dtype)

        return [one(scale) for scale in self.scales]
