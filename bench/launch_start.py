"""How long a job takes from its start to its first collective: `unisono run` beside torchrun.

Two ranks import NumPy, meet, and add up four numbers: with unisono, started by `unisono run`, and
with PyTorch and Gloo, started by torchrun. Counted is the time until the last rank has its sum, in
rounds in which both take turns.

Usage: python bench/launch_start.py [--rounds N] [--ranks N] [--program FILE] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PATIENCE = 120.0
BUILT = Path(__file__).resolve().parents[1] / "build" / "release" / "bin" / "unisono"
RANKS = {
    "unisono": """
import os, sys, time
import numpy as np
import unisono
with unisono.init() as world:
    world.all_reduce(np.ones(4, np.float32))
    done = time.monotonic()
""",
    "torch": """
import os, sys, time
import numpy as np
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.from_numpy(np.ones(4, np.float32)))
done = time.monotonic()
dist.destroy_process_group()
""",
}
REPORT = """
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    file.write(str(done))
"""


@dataclass(frozen=True)
class Result:
    """Medians in milliseconds, and our time over torchrun's, with its range."""

    unisono_ms: float
    torch_ms: float
    ratio: float
    least: float
    most: float


def launcher(library: str, program: str, ranks: int) -> list[str]:
    if library == "unisono":
        # With the Python that this runs on, as the other: the first in PATH may lack NumPy.
        return [program, "run", "-n", str(ranks), sys.executable]
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]


def start_to_sum(command: list[str], script: Path, ranks: int) -> float:
    """Seconds from the start of the launcher until the last rank has its sum."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()  # one clock for all processes of a host
        subprocess.run(
            [*command, str(script), folder], check=True, capture_output=True, timeout=PATIENCE
        )
        ends = [float(path.read_text()) for path in Path(folder).iterdir()]
    if len(ends) != ranks:
        raise RuntimeError(f"{len(ends)} of {ranks} ranks have reported")
    return max(ends) - start


def measure(program: str, ranks: int, rounds: int) -> Result:
    times: dict[str, list[float]] = {library: [] for library in RANKS}
    with tempfile.TemporaryDirectory() as folder:
        scripts = {library: Path(folder) / f"{library}_rank.py" for library in RANKS}
        for library, script in scripts.items():
            script.write_text(RANKS[library] + REPORT)
        for turn in range(rounds + 1):  # the first only brings the files into memory
            for library in RANKS if turn % 2 == 0 else reversed(RANKS):
                command = launcher(library, program, ranks)
                took = start_to_sum(command, scripts[library], ranks)
                times[library] += [took] if turn > 0 else []
    ratios = [ours / theirs for ours, theirs in zip(times["unisono"], times["torch"], strict=True)]
    ours, theirs = (statistics.median(times[library]) * 1000 for library in RANKS)
    ratio = statistics.median(ratios)
    return Result(
        round(ours, 1),
        round(theirs, 1),
        round(ratio, 3),
        round(min(ratios), 3),
        round(max(ratios), 3),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--program", default=shutil.which("unisono") or str(BUILT))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.program, options.ranks, options.rounds)
    if options.json:
        print(json.dumps({"schema": "unisono-launch-start/1", **asdict(result)}, indent=2))
        return
    print(f"unisono run {result.unisono_ms:8.1f} ms")
    print(f"torchrun    {result.torch_ms:8.1f} ms")
    print(f"ratio       {result.ratio:8.3f}  {result.least} to {result.most}; wanted: below 0.5")


if __name__ == "__main__":
    main()
