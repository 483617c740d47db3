"""Trains a small network with NumPy on several ranks, each of which sees its share of the examples.

    unisono run -n 4 examples/train_numpy.py [--epochs 100] [--plot loss.svg]

The network has two layers and learns a function of two numbers. All ranks begin with the same
weights and shuffle the same way, so that they take the same steps, and with any number of ranks the
result is the same but for rounding. Rank 0 shows how far it is and draws the loss.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import unisono

Array = NDArray[np.float64]

EXAMPLES, BATCH, HIDDEN = 4096, 256, 32
RATE, MOMENTUM = 0.05, 0.9
SHAPES = {
    "first.weights": (2, HIDDEN),
    "first.bias": (HIDDEN,),
    "second.weights": (HIDDEN, 1),
    "second.bias": (1,),
}


def backward(
    model: unisono.DataParallel,
    params: dict[str, Array],
    inputs: Array,
    wanted: Array,
    share: float,
) -> float:
    """Hands over the gradients of a layer as soon as they are there, the last layer first: they are
    averaged while those of the layer before are computed. Returns the sum of squared errors."""
    hidden = np.tanh(inputs @ params["first.weights"] + params["first.bias"])
    error = hidden @ params["second.weights"] + params["second.bias"] - wanted
    slope = 2 * error / share
    model.ready("second.bias", slope.sum(axis=0))
    model.ready("second.weights", hidden.T @ slope)
    inner = slope @ params["second.weights"].T * (1 - hidden**2)
    model.ready("first.bias", inner.sum(axis=0))
    model.ready("first.weights", inputs.T @ inner)
    return float(np.sum(error**2))


def train(world: unisono.Group, epochs: int) -> list[float]:
    """Returns the mean loss of every epoch, which all ranks know."""
    random = np.random.default_rng(seed=1)  # the same on all ranks
    inputs = random.uniform(-1, 1, (EXAMPLES, 2))
    wanted = np.sin(3 * inputs[:, :1]) * np.cos(2 * inputs[:, 1:])
    params = {name: random.normal(0, 0.3, shape) for name, shape in SHAPES.items()}
    speed = {name: np.zeros_like(values) for name, values in params.items()}
    model = unisono.DataParallel(params, world)
    history = []
    for epoch in range(epochs):
        loss = np.zeros(1)
        for batch in np.split(random.permutation(EXAMPLES), EXAMPLES // BATCH):
            mine = batch[world.rank :: world.size]
            with model.step():
                # The average is that of the batch even if the ranks' shares are not equally large.
                loss += backward(model, params, inputs[mine], wanted[mine], BATCH / world.size)
            for name, values in params.items():
                speed[name] = MOMENTUM * speed[name] - RATE * model.grad(name)
                values += speed[name]
        world.all_reduce(loss)
        history.append(float(loss[0]) / EXAMPLES)
        if world.rank == 0:
            show(epoch + 1, epochs, history[-1])
    return history


def show(done: int, all_of_them: int, loss: float) -> None:
    """A bar that moves: what ends with a carriage return is overwritten by what follows."""
    full = 30 * done // all_of_them
    end = "\n" if done == all_of_them else "\r"
    print(f"[{'#' * full:30}] epoch {done}/{all_of_them}, loss {loss:.5f}", end=end, flush=True)


def draw(losses: list[float], title: str, file: Path) -> None:
    """The loss over the epochs, on a logarithmic scale, as SVG."""
    powers = np.log10(losses)
    low, high = int(np.floor(powers.min())), int(np.floor(powers.max())) + 1

    def down(power: float) -> float:
        return float(320 - 270 * (power - low) / (high - low))

    scale = "".join(
        f'<path d="M60 {down(power)}H580" stroke="#ddd"/>'
        f'<text x="10" y="{down(power) + 4}">1e{power}</text>\n'
        for power in range(low, high + 1)
    )
    across = np.linspace(60, 580, len(losses))
    points = " ".join(f"{x:.1f},{down(y):.1f}" for x, y in zip(across, powers, strict=True))
    file.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 360" font-family="sans-serif" '
        f'font-size="13"><rect width="600" height="360" fill="white"/>\n{scale}'
        f'<polyline points="{points}" fill="none" stroke="#06c" stroke-width="2"/>\n'
        f'<text x="60" y="30">{title}</text>'
        f'<text x="580" y="345" text-anchor="end">epoch {len(losses)}</text></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on several ranks.")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--plot", type=Path, default=Path("loss.svg"), help="an SVG file")
    chosen = parser.parse_args()
    with unisono.init() as world:
        losses = train(world, chosen.epochs)
        if world.rank == 0:
            draw(losses, f"mean squared error; ranks: {world.size}", chosen.plot)
            print(f"the loss fell from {losses[0]:.5f} to {losses[-1]:.5f}; see {chosen.plot}")


if __name__ == "__main__":
    main()
