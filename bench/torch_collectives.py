"""Collectives of torch.distributed from Python: unisono beside Gloo, in the same processes.

Every rank has a group of each, and the two take turns, in an order that rotates. Counted is the
time of the slowest rank per call. A ratio is Gloo's time over ours in the same round; shown are the
median of the rounds, their range, and in how many rounds unisono was ahead. The first result of
every task is compared, number by number.

Usage: python bench/torch_collectives.py [--ranks 2,4] [--ops …] [--sizes …] [--rounds N]
                                         [--json] [--plot FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LIBRARIES = ("gloo", "unisono")
SIZES = (4, 64, 1024, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
TASK_SECONDS = 0.02  # of one library in one round, where an operation does not take longer
MOST_CALLS = 300
PATIENCE = timedelta(seconds=300)
WIDTH, HEIGHT, LEFT, TOP, FLOOR = 720, 400, 70, 50, 350
COLORS = ("#c25b2a", "#2468b4", "#4a8f3c", "#8250a0")

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One operation of one size between so many ranks; times in microseconds."""

    op: str
    bytes: int
    ranks: int
    gloo_us: float
    unisono_us: float
    ratio: float
    least: float
    most: float
    ahead: int
    rounds: int


class Task:
    """What a rank gives to an operation and gets from it, for a group of its own."""

    def __init__(self, size: int, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        count = max(1, size // 4)
        self.whole = torch.arange(count, dtype=torch.float32) % 97 + self.rank
        self.share = self.whole[: max(1, count // self.ranks)].clone()
        self.all = torch.zeros(self.share.numel() * self.ranks)
        self.parts = torch.arange(self.all.numel(), dtype=torch.float32) % 89 + self.rank

    def shares(self) -> list[torch.Tensor]:
        return list(self.all.chunk(self.ranks))

    def ping_pong(self) -> None:
        """There and back, between ranks 0 and 1; the others look on."""
        if self.rank == 0:
            dist.send(self.whole, 1, group=self.group)
            dist.recv(self.whole, 1, group=self.group)
        elif self.rank == 1:
            dist.recv(self.whole, 0, group=self.group)
            dist.send(self.whole, 0, group=self.group)


# How each operation is called, and the tensor that holds its result. MAX, because what is added up
# again and again in place would grow beyond all bounds.
OPERATIONS: dict[str, Callable[[Task], tuple[Call, torch.Tensor]]] = {
    "all_reduce": lambda t: (
        lambda: dist.all_reduce(t.whole, dist.ReduceOp.MAX, group=t.group),
        t.whole,
    ),
    "reduce": lambda t: (
        lambda: dist.reduce(t.whole, 0, dist.ReduceOp.MAX, group=t.group),
        t.whole if t.rank == 0 else t.share,
    ),
    "broadcast": lambda t: (lambda: dist.broadcast(t.whole, 0, group=t.group), t.whole),
    "all_gather": lambda t: (
        lambda: dist.all_gather_single(t.all, t.share, group=t.group),
        t.all,
    ),
    "gather": lambda t: (
        lambda: dist.gather(t.share, t.shares() if t.rank == 0 else None, 0, group=t.group),
        t.all,
    ),
    "scatter": lambda t: (
        lambda: dist.scatter(t.share, t.shares() if t.rank == 0 else None, 0, group=t.group),
        t.share,
    ),
    "reduce_scatter": lambda t: (
        lambda: dist.reduce_scatter_single(t.share, t.parts, dist.ReduceOp.SUM, group=t.group),
        t.share,
    ),
    "all_to_all": lambda t: (
        lambda: dist.all_to_all_single(t.all, t.parts, group=t.group),
        t.all,
    ),
    "ping_pong": lambda t: (t.ping_pong, t.whole),
    "barrier": lambda t: (lambda: dist.barrier(group=t.group), t.share),
}


class Worker:
    """A rank: it has a group of each library, and runs the tasks."""

    def __init__(self, rank: int, ranks: int, folder: str) -> None:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks
        )
        torch.set_num_threads(1)
        self.groups = {
            "gloo": dist.group.WORLD,
            "unisono": dist.new_group(backend="unisono", timeout=PATIENCE),
        }

    def time(self, library: str, call: Call, calls: int) -> float:
        """Microseconds per call, after all ranks have met."""
        dist.barrier(group=self.groups[library])
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls * 1e6

    def slowest(self, times: list[float]) -> list[float]:
        together = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(together, dist.ReduceOp.MAX)
        return [float(took) for took in together]

    def measure(self, op: str, size: int, rounds: int) -> Row:
        tasks = {name: OPERATIONS[op](Task(size, group)) for name, group in self.groups.items()}
        for call, _ in tasks.values():
            call()
        results = [result for _, result in tasks.values()]
        if not torch.equal(*results):
            raise RuntimeError(f"{op} of {size} bytes: the results differ")
        once = self.slowest([self.time(name, tasks[name][0], 3) for name in LIBRARIES])
        calls = {
            name: max(1, min(MOST_CALLS, int(TASK_SECONDS * 1e6 / took)))
            for name, took in zip(LIBRARIES, once, strict=True)
        }
        times: dict[str, list[float]] = {name: [] for name in LIBRARIES}
        for turn in range(rounds):
            for name in LIBRARIES if turn % 2 == 0 else reversed(LIBRARIES):
                times[name].append(self.time(name, tasks[name][0], calls[name]))
        for name in LIBRARIES:
            times[name] = self.slowest(times[name])
        ratios = [
            theirs / ours for theirs, ours in zip(times["gloo"], times["unisono"], strict=True)
        ]
        return Row(
            op,
            size,
            dist.get_world_size(),
            round(statistics.median(times["gloo"]), 2),
            round(statistics.median(times["unisono"]), 2),
            round(statistics.median(ratios), 2),
            round(min(ratios), 2),
            round(max(ratios), 2),
            sum(ratio > 1 for ratio in ratios),
            rounds,
        )


def work(rank: int, ranks: int, folder: str, ops: list[str], sizes: list[int], rounds: int) -> None:
    worker = Worker(rank, ranks, folder)
    rows = []
    for op in ops:
        for size in sizes if op != "barrier" else [0]:
            rows.append(worker.measure(op, size, rounds))
            if rank == 0 and sys.stderr.isatty():
                print(f"\r\033[K{ranks} ranks: {op} {size}", end="", file=sys.stderr)
    if rank == 0:
        text = json.dumps([asdict(row) for row in rows])
        Path(folder, f"rows{ranks}").write_text(text)
    dist.destroy_process_group()


def run(ranks: int, ops: list[str], sizes: list[int], rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (ranks, folder, ops, sizes, rounds), nprocs=ranks)
        return [Row(**row) for row in json.loads(Path(folder, f"rows{ranks}").read_text())]


def in_words(size: int) -> str:
    for unit, name in ((1 << 20, " Mi"), (1 << 10, " Ki")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def table(rows: list[Row]) -> str:
    lines = [
        "| operation | bytes | ranks | Gloo, µs | unisono, µs | ratio | ahead in |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.op} | {in_words(row.bytes)} | {row.ranks} | {row.gloo_us:,.1f} "
        f"| {row.unisono_us:,.1f} | {row.ratio} ({row.least} to {row.most}) "
        f"| {row.ahead} of {row.rounds} |"
        for row in rows
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Curve:
    """A name and its points; both coordinates are above 0."""

    name: str
    points: list[tuple[float, float]]


class Axes:
    """Where a point of the curves is in the picture."""

    def __init__(self, curves: list[Curve]) -> None:
        points = [point for curve in curves for point in curve.points]
        self.across = [math.log2(x) for x, _ in points]
        self.low = math.floor(min(math.log10(y) for _, y in points))
        self.high = math.ceil(max(math.log10(y) for _, y in points))

    def x(self, value: float) -> float:
        first, last = min(self.across), max(self.across)
        return LEFT + (WIDTH - LEFT - 100) * (math.log2(value) - first) / ((last - first) or 1)

    def y(self, value: float) -> float:
        part = (math.log10(value) - self.low) / ((self.high - self.low) or 1)
        return FLOOR - (FLOOR - TOP) * part


def grid(axes: Axes, curves: list[Curve]) -> list[str]:
    parts = []
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 100}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>'
        )
    for x, _ in curves[0].points:
        place = f'x="{axes.x(x):.1f}" y="{FLOOR + 18}"'
        parts.append(f'<text {place} text-anchor="middle">{in_words(round(x))}</text>')
    return parts


def draw(title: str, across: str, up: str, curves: list[Curve]) -> str:
    """The picture, with a name at the end of every curve."""
    axes = Axes(curves)
    parts = grid(axes, curves)
    for curve, color in zip(curves, COLORS, strict=False):
        points = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in curve.points)
        x, y = curve.points[-1]
        end = f'x="{axes.x(x) + 8:.1f}" y="{axes.y(y) + 4:.1f}"'
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
            f'<text {end} fill="{color}">{curve.name}</text>'
        )
    body = "\n".join(parts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" \
font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
<text x="{LEFT}" y="26" font-size="15">{title}</text>
<text x="8" y="{TOP - 8}">{up}</text>
<text x="{WIDTH - 100}" y="{FLOOR + 36}" text-anchor="end">{across}</text>
{body}
</svg>
"""


def curves(rows: list[Row], ranks: int) -> list[Curve]:
    found = [row for row in rows if row.op == "all_reduce" and row.ranks == ranks]
    return [
        Curve("Gloo", [(row.bytes, row.gloo_us) for row in found]),
        Curve("unisono", [(row.bytes, row.unisono_us) for row in found]),
    ]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=numbers, default=[2, 4])
    parser.add_argument("--ops", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", type=numbers, default=list(SIZES), help="bytes")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, help="all_reduce as a picture (SVG)")
    options = parser.parse_args()
    ops = options.ops.split(",")
    if unknown := [op for op in ops if op not in OPERATIONS]:
        parser.error(f"there is no operation {unknown[0]}; there are {', '.join(OPERATIONS)}")
    before = os.getloadavg()
    rows = [
        row for ranks in options.ranks for row in run(ranks, ops, options.sizes, options.rounds)
    ]
    if options.plot:
        title = f"all_reduce of torch.distributed between {options.ranks[0]} ranks"
        options.plot.write_text(draw(title, "bytes", "µs", curves(rows, options.ranks[0])))
    if options.json:
        facts = {"torch": torch.__version__, "load": before, "cores": os.cpu_count()}
        document = {"schema": "unisono-torch-collectives/1", **facts}
        print(json.dumps({**document, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
