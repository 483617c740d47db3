"""An optimizer whose memory is shared out: every rank keeps its part of the state only (ZeRO).

    unisono run -n 4 examples/zero_numpy.py

Adam keeps two numbers for every parameter. Here rank r has them for its part of the parameters:
reduce_scatter gives it the averages of those gradients, it makes the step for them, and all_gather
tells everybody the new values. That moves as many bytes as averaging all gradients does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import unisono

Array = NDArray[np.float64]

FEATURES, SAMPLES, STEPS = 200, 4000, 400


class ShardedAdam:
    """Adam over one row of parameters, which is the same on all ranks before and after a step."""

    def __init__(self, params: Array, world: unisono.Group, rate: float = 0.02) -> None:
        self._world, self._rate = world, rate
        self._params = params
        part = -(-params.size // world.size)  # rounded up: the last one may be padding in part
        self._padded = np.zeros(part * world.size)
        self._moments = np.zeros((2, part))
        self._steps = 0

    def state_bytes(self) -> int:
        """What this rank keeps between steps."""
        return self._moments.nbytes

    def step(self, gradient: Array) -> None:
        """Takes the gradient of this rank's data; all ranks call it."""
        world, (mean, square) = self._world, self._moments
        self._steps += 1
        self._padded[: gradient.size] = gradient
        own = world.reduce_scatter_single(self._padded, op="avg")
        mean += 0.1 * (own - mean)
        square += 0.001 * (own**2 - square)
        unbiased = mean / (1 - 0.9**self._steps), square / (1 - 0.999**self._steps)
        change = self._rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        self._params -= world.all_gather_single(change)[: self._params.size]


def train(world: unisono.Group, steps: int = STEPS) -> tuple[float, Array, int]:
    """Fits a line through many dimensions: its error at the end, the line, the bytes of state."""
    random = np.random.default_rng(seed=1)  # the same on all ranks
    truth = random.normal(size=FEATURES)
    inputs = random.normal(size=(SAMPLES, FEATURES))
    mine = inputs[world.rank :: world.size]
    wanted = mine @ truth
    weights = np.zeros(FEATURES)
    adam = ShardedAdam(weights, world)
    for _ in range(steps):
        error = mine @ weights - wanted
        adam.step(mine.T @ error * world.size / SAMPLES)
    return float(np.abs(weights - truth).max()), weights, adam.state_bytes()


def main() -> None:
    with unisono.init() as world:
        error, weights, state = train(world)
        whole = 2 * weights.nbytes
        print(f"rank {world.rank}: error {error:.1e}, keeps {state} of {whole} bytes of state")


if __name__ == "__main__":
    main()
