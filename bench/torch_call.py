"""What a call of torch.distributed costs in Python: PyTorch's own part, and what unisono adds.

A world of one, where nobody is waited for: all_reduce of four bytes over unisono, and over
PyTorch's backend "fake", which does nothing. The difference is unisono, from PyTorch's door to the
end of the operation. Both take turns; printed are the least of the rounds, which neighbours disturb
least.

Usage: python bench/torch_call.py [--rounds N] [--calls N] [--json]
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401, registers "fake"


def time_calls(group: dist.ProcessGroup, calls: int) -> float:
    """Microseconds per call."""
    numbers = torch.ones(1)
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(numbers, group=group)
    return (time.perf_counter() - start) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
    groups = {"unisono": dist.group.WORLD, "fake": dist.new_group(backend="fake")}
    times: dict[str, list[float]] = {name: [] for name in groups}
    for _ in range(options.rounds):
        for name, group in groups.items():
            times[name].append(time_calls(group, options.calls))
    dist.destroy_process_group()
    ours, fake = min(times["unisono"]), min(times["fake"])
    if options.json:
        document = {"schema": "unisono-torch-call/1", "unisono_us": ours, "fake_us": fake}
        print(json.dumps({**document, "added_us": ours - fake}, indent=2))
        return
    print(f"all_reduce over unisono {ours:6.2f} us")
    print(f"over PyTorch's fake     {fake:6.2f} us")
    print(f"unisono adds            {ours - fake:6.2f} us; wanted: at most 1.00")


if __name__ == "__main__":
    main()
