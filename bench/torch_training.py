"""What a step of training spends on communication: unisono beside Gloo, in the same processes.

The model of examples/torch/train.py, as DDP and as FSDP2, over a group of each library, and once
without any: what a step takes longer than that one is communication. The three take turns.

Usage: python bench/torch_training.py [--ranks N] [--rounds N] [--steps N] [--width N] [--json]
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "torch" / "train.py"
LIBRARIES = ("gloo", "unisono")
ALPHABET = 96


@dataclass(frozen=True)
class Row:
    """Milliseconds of a step, and Gloo's time of communication over ours, with its range."""

    parallel: str
    alone_ms: float
    gloo_ms: float
    unisono_ms: float
    ratio: float
    least: float
    most: float


def example(width: int) -> ModuleType:
    """The example as a module, with a model of another width."""
    loader = importlib.machinery.SourceFileLoader("train_example", str(EXAMPLE))
    module = ModuleType(loader.name)
    module.__file__ = str(EXAMPLE)
    loader.exec_module(module)
    module.__dict__["WIDTH"] = width
    return module


def spread(model: nn.Module, how: str, group: dist.ProcessGroup) -> nn.Module:
    if how == "ddp":
        return DistributedDataParallel(model, process_group=group)
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


class Trainer:
    """One model and its optimizer."""

    def __init__(self, model: nn.Module, code: ModuleType) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        dice = torch.Generator().manual_seed(dist.get_rank())
        shape = (code.BATCH, code.CONTEXT)
        self.text = torch.randint(ALPHABET, shape, generator=dice)
        self.following = torch.randint(ALPHABET, shape, generator=dice)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.text, self.following).backward()
        self.optimizer.step()


def time_steps(trainer: Trainer, steps: int) -> float:
    """Milliseconds per step, of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    took = torch.tensor([(time.perf_counter() - start) / steps * 1e3])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def measure(how: str, code: ModuleType, rounds: int, steps: int) -> Row:
    groups = {"gloo": dist.group.WORLD, "unisono": dist.new_group(backend="unisono")}
    torch.manual_seed(1)
    trainers = {"alone": Trainer(code.Model(ALPHABET), code)}
    for name, group in groups.items():
        torch.manual_seed(1)
        trainers[name] = Trainer(spread(code.Model(ALPHABET), how, group), code)
    for trainer in trainers.values():
        time_steps(trainer, 3)  # buckets are made anew after the first
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for turn in range(rounds):
        order = list(trainers)
        for name in order[turn % 3 :] + order[: turn % 3]:
            times[name].append(time_steps(trainers[name], steps))
    spent = {
        name: [
            all_of_it - alone for all_of_it, alone in zip(times[name], times["alone"], strict=True)
        ]
        for name in LIBRARIES
    }
    ratios = [gloo / ours for gloo, ours in zip(spent["gloo"], spent["unisono"], strict=True)]
    return Row(
        how,
        round(statistics.median(times["alone"]), 2),
        round(statistics.median(times["gloo"]), 2),
        round(statistics.median(times["unisono"]), 2),
        round(statistics.median(ratios), 2),
        round(min(ratios), 2),
        round(max(ratios), 2),
    )


def work(rank: int, ranks: int, folder: str, rounds: int, steps: int, width: int) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks
    )
    torch.set_num_threads(1)
    rows = [measure(how, example(width), rounds, steps) for how in ("ddp", "fsdp")]
    if rank == 0:
        Path(folder, "rows").write_text(json.dumps([asdict(row) for row in rows]))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        given = (options.ranks, folder, options.rounds, options.steps, options.width)
        mp.spawn(work, given, nprocs=options.ranks)
        rows = [Row(**row) for row in json.loads(Path(folder, "rows").read_text())]
    if options.json:
        facts = {"schema": "unisono-torch-training/1", "ranks": options.ranks, "load": load}
        print(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=2))
        return
    print("| | alone, ms | Gloo, ms | unisono, ms | Gloo's communication over ours |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.parallel} | {row.alone_ms} | {row.gloo_ms} | {row.unisono_ms} "
            f"| {row.ratio} ({row.least} to {row.most}) |"
        )


if __name__ == "__main__":
    main()
