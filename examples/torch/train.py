"""Trains a small language model on the letters of a text, on several ranks.

    unisono run -n 2 examples/torch/train.py --parallel ddp
    torchrun --nproc-per-node 2 examples/torch/train.py --parallel fsdp

Rank 0 shows how far it is, and draws the loss into loss.svg. What is printed last are the weights,
in short: two runs that print the same have ended with the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812, everybody calls it so
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

# English that does not change from version to version.
LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
CONTEXT, BATCH, WIDTH, HEADS, BLOCKS = 48, 8, 64, 4, 2


class Block(nn.Module):  # type: ignore[misc]
    """Every letter looks at those before it, then thinks by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.questions = nn.Linear(WIDTH, 3 * WIDTH)
        self.answer = nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        count, length, _ = letters.shape
        three = self.questions(self.before(letters)).view(count, length, 3, HEADS, -1)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        letters = letters + self.answer(seen.transpose(1, 2).reshape(letters.shape))
        return letters + self.think(self.between(letters))


class Model(nn.Module):  # type: ignore[misc]
    """Guesses the next letter at every place of a text, and says how wrong that was."""

    def __init__(self, alphabet: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(alphabet, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.guess = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, alphabet))

    def forward(self, text: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        found = self.letters(text) + self.places.weight
        for block in self.blocks:
            found = block(found)
        return F.cross_entropy(self.guess(found).flatten(0, 1), following.flatten())


def spread(model: nn.Module, how: str) -> nn.Module:
    """The model as all ranks train it together."""
    if how == "ddp":
        return DistributedDataParallel(model)  # everybody has all of it
    for block in model.blocks:
        fully_shard(block)  # everybody keeps a part of each
    return fully_shard(model)


def train(model: nn.Module, text: torch.Tensor, steps: int) -> list[float]:
    """The loss at each step, averaged over the ranks, which read different places of the text."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    dice = torch.Generator().manual_seed(1000 + dist.get_rank())
    losses: list[float] = []
    begin = time.monotonic()
    for step in range(1, steps + 1):
        starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=dice)
        places = starts + torch.arange(CONTEXT)
        loss = model(text[places], text[places + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average = loss.detach()
        dist.all_reduce(average, dist.ReduceOp.AVG)
        losses.append(average.item())
        if dist.get_rank() == 0:
            show(step, steps, losses[-1], step / (time.monotonic() - begin))
    return losses


def show(step: int, steps: int, loss: float, rate: float) -> None:
    """A bar that grows on a terminal, and now and then a line elsewhere."""
    if not sys.stdout.isatty() and step > 1 and step % max(1, steps // 5) and step < steps:
        return
    bar = ("█" * (24 * step // steps)).ljust(24, "░")
    line = f"{bar} step {step}/{steps}  loss {loss:.4f}  {rate:.0f} steps/s"
    print(line, end="\r" if sys.stdout.isatty() and step < steps else "\n", flush=True)


def draw(losses: list[float], title: str, path: Path) -> None:
    """The curve, as an SVG of 640 by 360."""
    low, high = min(losses), max(losses)

    def point(step: int, loss: float) -> str:
        across = step / max(1, len(losses) - 1)
        down = (high - loss) / ((high - low) or 1)
        return f"{60 + 560 * across:.1f},{50 + 270 * down:.1f}"

    curve = " ".join(point(step, loss) for step, loss in enumerate(losses))
    path.write_text(f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" \
font-size="13">
<rect width="640" height="360" fill="white"/>
<text x="60" y="28" font-size="15">{title}</text>
<path d="M60 50V320H620" fill="none" stroke="#888"/>
<text x="52" y="54" text-anchor="end">{high:.2f}</text>
<text x="52" y="324" text-anchor="end">{low:.2f}</text>
<text x="620" y="342" text-anchor="end">{len(losses)} steps</text>
<polyline points="{curve}" fill="none" stroke="#2468b4" stroke-width="2"/>
</svg>
""")


def fingerprint(model: nn.Module) -> str:
    """Of all weights together; all ranks must call it, for each may have only parts."""
    found = hashlib.sha256()
    for weight in model.parameters():
        whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
        found.update(whole.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--backend", default="unisono")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--text", type=Path, default=LICENSE, help="what to learn from")
    parser.add_argument("--plot", type=Path, default=Path("loss.svg"))
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    torch.set_num_threads(1)  # with others the sums of a matrix product have another order
    torch.manual_seed(1)  # the same weights to begin with, on all ranks
    characters = options.text.read_text()
    alphabet = {letter: number for number, letter in enumerate(sorted(set(characters)))}
    text = torch.tensor([alphabet[letter] for letter in characters])
    model = spread(Model(len(alphabet)), options.parallel)

    losses = train(model, text, options.steps)
    weights = fingerprint(model)
    if dist.get_rank() == 0:
        title = f"{options.parallel} on {dist.get_world_size()} ranks over {options.backend}"
        draw(losses, f"Loss: {title}", options.plot)
        print(f"{title}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, weights {weights}")
    del model  # before the group: a group of gloo that goes with DDP may never end
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
