"""What a data-parallel step costs: unisono.DataParallel beside torch's DDP over Gloo.

A backward pass that is made up: for each layer, from the last to the first, some computing and a
gradient of a size. Computing is a fixed amount of arithmetic on one core, calibrated once, so that
what takes the core away from it shows. The same layers are run, in the same processes,

- alone: without communication, once with arrays and once with autograd;
- by unisono.DataParallel, with gradients written where they are reduced;
- by torch's DistributedDataParallel over Gloo, with gradients as views of its buckets;
- as all_reduce alone, of as many bytes, by each library.

They take turns; every figure is the median over the rounds, every ratio that of the ratios of each
round, of the slowest rank.

- exposed: what a step takes longer than the same one alone;
- bound: the longer of computing and communicating alone. No step can be shorter;
- over bound: a step of unisono, less what one takes whose gradients have one element each (fixed),
  over the bound;
- overhead: processor time of a step without computing, with one element per gradient, in a world of
  one: less the same step without the library;
- memory: what a rank needs beside its parameters after some steps, shared pages by halves.

Usage: python bench/ddp_step.py [--ranks N] [--sizes N,N,…] [--compute MS,MS,…] [--cap MIB]
                                [--rounds N] [--steps N] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import unisono

MIB = 1 << 20
LEAST_MS = 1e-3  # what is less is taken for this, so that ratios stay numbers


@dataclass(frozen=True)
class Layers:
    """By layer, elements of the gradient and rounds of arithmetic; buckets are closed at `cap`."""

    sizes: list[int]
    work: list[int]
    cap: int

    @property
    def bytes(self) -> int:
        return 4 * sum(self.sizes)

    def tiny(self) -> Layers:
        """As many, with nothing to compute and one element each."""
        return Layers([1] * len(self.sizes), [0] * len(self.sizes), self.cap)


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    ranks: int
    sizes: list[int]
    compute_ms: list[float]
    cap: int
    rounds: int
    steps: int


class Arithmetic:
    """Computing that needs a core and no memory."""

    def __init__(self) -> None:
        self._values = np.full(2048, 1.0, np.float32)
        self._factors = np.full(2048, 1.0, np.float32)
        self.per_ms = max(1, round(1 / self._fastest()))

    def __call__(self, rounds: int) -> None:
        for _ in range(rounds):
            np.multiply(self._values, self._factors, out=self._values)

    def _fastest(self) -> float:
        """Milliseconds of a round, of the fastest of many."""
        took = []
        for _ in range(20):
            start = time.perf_counter()
            self(500)
            took.append((time.perf_counter() - start) / 500 * 1e3)
        return min(took)


class Alone:
    """The backward pass on arrays."""

    def __init__(self, layers: Layers, compute: Arithmetic) -> None:
        self._layers = layers
        self._compute = compute
        self.places = [np.zeros(size, np.float32) for size in layers.sizes]

    def step(self) -> None:
        for layer in reversed(range(len(self.places))):
            self._compute(self._layers.work[layer])
            self.places[layer].fill(1.0)


class ByUnisono:
    """The same, reduced by unisono."""

    def __init__(self, layers: Layers, compute: Arithmetic, world: unisono.Group) -> None:
        self._layers = layers
        self._compute = compute
        self._value = 1.0 + world.rank
        self._params = [np.ones(size, np.float32) for size in layers.sizes]
        self.model = unisono.DataParallel(
            self._params, world, bucket_bytes_cap=layers.cap, first_bucket_bytes_cap=layers.cap
        )

    def step(self) -> None:
        model = self.model
        with model.step():
            for layer in reversed(range(len(self._params))):
                self._compute(self._layers.work[layer])
                model.grad(layer).fill(self._value)
                model.ready(layer)

    def gradient(self) -> float:
        return float(self.model.grad(0)[0])


class Layer(torch.autograd.Function):  # type: ignore[misc]
    """One that computes only on its way back."""

    @staticmethod
    def forward(ctx: Any, chain: Any, weight: Any, back: Callable[[], float]) -> Any:  # noqa: ANN401
        ctx.back = back
        ctx.save_for_backward(weight)
        return chain.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ANN401
        (weight,) = ctx.saved_tensors
        return gradient, torch.full_like(weight, ctx.back()), None


class Model(nn.Module):  # type: ignore[misc]
    """The layers, for autograd."""

    def __init__(self, layers: Layers, compute: Arithmetic) -> None:
        super().__init__()
        self._layers = layers
        self._compute = compute
        self._value = 1.0 + float(dist.get_rank())
        self.weights = nn.ParameterList(torch.ones(size) for size in layers.sizes)

    def forward(self, chain: Any) -> Any:  # noqa: ANN401
        for number, weight in enumerate(self.weights):
            chain = Layer.apply(chain, weight, lambda at=number: self._back(at))
        return chain

    def _back(self, layer: int) -> float:
        self._compute(self._layers.work[layer])
        return self._value


class ByTorch:
    """The same by autograd: alone, or reduced over a group."""

    def __init__(
        self, layers: Layers, compute: Arithmetic, group: dist.ProcessGroup | None
    ) -> None:
        self.module = Model(layers, compute)
        self._called: nn.Module = self.module
        if group is not None:
            self._called = DistributedDataParallel(
                self.module,
                process_group=group,
                bucket_cap_mb=layers.cap / MIB,
                gradient_as_bucket_view=True,
            )
        self._chain = torch.zeros(1, requires_grad=True)

    def step(self) -> None:
        self.module.zero_grad(set_to_none=True)
        self._called(self._chain).backward()

    def gradient(self) -> float:
        return float(self.module.weights[0].grad[0])


def slowest(value: float) -> float:
    """The largest of all ranks."""
    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def time_of(step: Callable[[], object], steps: int) -> float:
    """Milliseconds of one, of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return slowest((time.perf_counter() - start) / steps * 1e3)


def turns(
    contestants: dict[str, Callable[[], object]], rounds: int, steps: int
) -> dict[str, list[float]]:
    """Milliseconds of each in each round; another one begins every time."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for turn in range(rounds):
        at = turn % len(order)
        for name in order[at:] + order[:at]:
            times[name].append(time_of(contestants[name], steps))
    return times


def own_memory() -> int:
    """Bytes that this process needs; of what it shares, its part."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say how much memory this process needs")


def memory_of(make: Callable[[], ByUnisono | ByTorch], params: int) -> tuple[Any, int]:
    """What `make` makes, after some steps, and the bytes that it needs beside its parameters."""
    gc.collect()
    dist.barrier()
    before = own_memory()
    made = make()
    for _ in range(4):  # buckets are made anew after the first
        made.step()
    dist.barrier()  # others may use parts of it
    return made, round(slowest(own_memory() - before - params))


def check(sides: Sequence[ByUnisono | ByTorch], ranks: int) -> None:
    average = sum(range(1, ranks + 1)) / ranks
    for side in sides:
        if abs(side.gradient() - average) > 1e-5 * average:
            raise RuntimeError(f"a gradient is {side.gradient()}, but {average} is the average")


def measured_steps(plan: Plan, world: unisono.Group, compute: Arithmetic) -> dict[str, float]:
    """Times and memory of whole steps."""
    work = [round(ms * compute.per_ms) for ms in plan.compute_ms]
    layers = Layers(plan.sizes, work, plan.cap)
    ours, our_memory = memory_of(lambda: ByUnisono(layers, compute, world), layers.bytes)
    torchs, torch_memory = memory_of(
        lambda: ByTorch(layers, compute, dist.group.WORLD), layers.bytes
    )
    check((ours, torchs), plan.ranks)
    row = np.ones(sum(layers.sizes), np.float32)
    tensor = torch.ones(sum(layers.sizes))
    fixed = ByUnisono(layers.tiny(), compute, world)
    contestants: dict[str, Callable[[], object]] = {
        "alone": Alone(layers, compute).step,
        "unisono": ours.step,
        "communication": lambda: world.all_reduce(row, "avg"),
        "fixed": fixed.step,
        "autograd": ByTorch(layers, compute, None).step,
        "torch": torchs.step,
        "gloo": lambda: dist.all_reduce(tensor, dist.ReduceOp.SUM),
    }
    turns(contestants, 1, 2)
    found = figures(turns(contestants, plan.rounds, plan.steps))
    return {
        **found,
        "gradients_mib": round(layers.bytes / MIB, 2),
        "unisono_mib": round(our_memory / MIB, 2),
        "torch_mib": round(torch_memory / MIB, 2),
    }


def figures(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians of times, and of the ratios of each round."""
    rounds = [dict(zip(times, values, strict=True)) for values in zip(*times.values(), strict=True)]

    def median(of: Callable[[dict[str, float]], float], digits: int = 4) -> float:
        return round(statistics.median(of(each) for each in rounds), digits)

    def ours(each: dict[str, float]) -> float:
        return max(each["unisono"] - each["alone"], LEAST_MS)

    def torchs(each: dict[str, float]) -> float:
        return max(each["torch"] - each["autograd"], LEAST_MS)

    def bound(each: dict[str, float]) -> float:
        return max(each["alone"], each["communication"])

    return {
        **{f"{name}_ms": round(statistics.median(times[name]), 4) for name in times},
        "bound_ms": median(bound),
        "over_bound": median(lambda each: (each["unisono"] - each["fixed"]) / bound(each), 3),
        "unisono_exposed_ms": median(ours),
        "torch_exposed_ms": median(torchs),
        "exposed_ratio": median(lambda each: torchs(each) / ours(each), 2),
    }


def processor_us(step: Callable[[], object], steps: int) -> float:
    """Microseconds of processor time of a step, of all threads."""
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps * 1e6


def measured_overhead(plan: Plan, world: unisono.Group, compute: Arithmetic) -> dict[str, float]:
    """What the libraries compute themselves, where there is nothing to send."""
    layers = Layers(plan.sizes, plan.sizes, plan.cap).tiny()
    own = world.split(world.rank)
    groups = [dist.new_group([rank]) for rank in range(plan.ranks)]
    if own is None:
        raise RuntimeError("a rank has no group of its own")
    steps = {
        "alone": Alone(layers, compute).step,
        "unisono": ByUnisono(layers, compute, own).step,
        "autograd": ByTorch(layers, compute, None).step,
        "torch": ByTorch(layers, compute, groups[dist.get_rank()]).step,
    }
    for step in steps.values():
        processor_us(step, 3)
    rounds = []
    for _ in range(plan.rounds):
        dist.barrier()
        rounds.append({name: processor_us(step, 10 * plan.steps) for name, step in steps.items()})
    ours = [max(each["unisono"] - each["alone"], LEAST_MS) for each in rounds]
    torchs = [max(each["torch"] - each["autograd"], LEAST_MS) for each in rounds]
    ratios = [theirs / mine for theirs, mine in zip(torchs, ours, strict=True)]
    return {
        "unisono_overhead_us": round(statistics.median(ours), 2),
        "torch_overhead_us": round(statistics.median(torchs), 2),
        "overhead_ratio": round(statistics.median(ratios), 2),
    }


def work(rank: int, plan: Plan, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/gloo", rank=rank, world_size=plan.ranks
    )
    with unisono.init(f"file://{folder}/unisono", rank=rank, size=plan.ranks) as world:
        compute = Arithmetic()
        compute.per_ms = round(slowest(compute.per_ms))  # as much work on all ranks
        found = measured_steps(plan, world, compute) | measured_overhead(plan, world, compute)
        if rank == 0:
            Path(folder, "found").write_text(json.dumps(found))
        dist.barrier()
    dist.destroy_process_group()


def environment() -> dict[str, object]:
    """Where it was measured, and how busy it was there before."""
    return {
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "unisono": unisono.__version__,
    }


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def asked() -> tuple[Plan, bool]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=numbers, default=[5e5] * 12, help="elements, by layer")
    parser.add_argument("--compute", type=numbers, default=[4.0], help="ms, by layer or of each")
    parser.add_argument("--cap", type=float, default=4.0, help="of a bucket, in MiB")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes]
    times = options.compute * (len(sizes) if len(options.compute) == 1 else 1)
    if len(times) != len(sizes):
        parser.error(f"{len(sizes)} layers have sizes, but {len(times)} have times")
    cap = int(options.cap * MIB)
    return Plan(options.ranks, sizes, times, cap, options.rounds, options.steps), options.json


def main() -> None:
    plan, as_json = asked()
    facts = environment()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (plan, folder), nprocs=plan.ranks)
        found = json.loads(Path(folder, "found").read_text())
    if as_json:
        document = {"schema": "unisono-ddp-step/1", "environment": facts, "plan": asdict(plan)}
        print(json.dumps({**document, **found}, indent=2))
        return
    print("| | alone | step | exposed | bound | over bound | overhead, µs | memory, MiB |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| unisono | {found['alone_ms']} | {found['unisono_ms']} | {found['unisono_exposed_ms']} "
        f"| {found['bound_ms']} | {found['over_bound']} | {found['unisono_overhead_us']} "
        f"| {found['unisono_mib']} |"
    )
    print(
        f"| torch | {found['autograd_ms']} | {found['torch_ms']} | {found['torch_exposed_ms']} "
        f"| | | {found['torch_overhead_us']} | {found['torch_mib']} |"
    )
    print(
        f"\nexposed {found['exposed_ratio']} times less, overhead {found['overhead_ratio']} times"
    )


if __name__ == "__main__":
    main()
