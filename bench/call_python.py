"""What a small all_reduce costs from Python, in a world of one, where nobody is waited for.

    python bench/call_python.py numpy|torch|async CALLS

Prints nanoseconds per call. `build/release/bin/call_cost public CALLS` is the same call from C++;
scripts/prove.sh python-call counts instructions of both, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import unisono


def caller(kind: str, world: unisono.Group) -> Callable[[], object]:
    """What is measured: the call on an array of one kind."""
    if kind == "torch":
        import torch

        tensor = torch.ones(1)
        return lambda: world.all_reduce(tensor)
    import numpy

    array = numpy.ones(1, numpy.float32)
    if kind == "async":
        return lambda: world.all_reduce(array, async_op=True).wait()
    return lambda: world.all_reduce(array)


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("numpy", "torch", "async"):
        sys.exit("usage: call_python.py numpy|torch|async CALLS")
    calls = int(sys.argv[2])
    with unisono.init() as world:
        call = caller(sys.argv[1], world)
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        print(f"{(time.perf_counter_ns() - begin) / calls:.1f}")


if __name__ == "__main__":
    main()
