"""Runs all cases of ddp_cases.py and ddp_hook_cases.py: python -m tests.python.ddp_driver FOLDER

All run in one world of three processes, once between two of them and once between all. PyTorch
takes seconds to import: it is imported once, and the ranks are forks of that process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

import unisono
from tests.python import ddp_hook_cases  # noqa: F401 (it adds cases)
from tests.python.ddp_cases import CASES
from tests.python.ddp_sides import Ranks, Rows

ROOT = Path(__file__).resolve().parents[2]
SIZE = 3
# No world takes longer, unless it hangs.
PATIENCE = 400.0

# By number of ranks and case, what a rank has seen.
Found = dict[int, dict[str, Rows]]


@cache
def results() -> list[Found]:
    """By rank; the cases are run once."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-m", "tests.python.ddp_driver", folder],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return [pickle.loads((Path(folder) / f"rank{rank}").read_bytes()) for rank in range(SIZE)]


def all_cases(ranks: Ranks) -> dict[str, Rows]:
    found = {}
    for name, run_one in CASES.items():
        torch.manual_seed(ranks.rank)  # both libraries let all begin as rank 0
        try:
            found[name] = run_one(ranks)
        except BaseException:
            print(f"in '{name}' between {ranks.size} ranks, on rank {ranks.rank}:", file=sys.stderr)
            raise
    return found


def cases_of(world: unisono.Group) -> Found:
    alone = [dist.new_group([rank]) for rank in range(SIZE)][world.rank]
    first_two = dist.new_group([0, 1])
    pair = world.split(0 if world.rank < 2 else None)
    own, half = world.split(world.rank), world.split(world.rank // 2)
    assert own is not None and half is not None
    found = {}
    if pair is not None:
        found[2] = all_cases(Ranks(pair, first_two, own, alone))
    three = Ranks(world, dist.group.WORLD, half, first_two if world.rank < 2 else alone)
    found[3] = all_cases(three)
    return found


def rank_main(rank: int, folder: Path) -> NoReturn:
    """One rank, to its end. What it has seen is left in `folder`."""
    code = 0
    try:
        store = dist.FileStore(str(folder / "gloo"), SIZE)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE)
        with unisono.init(f"file://{folder}/unisono", rank=rank, size=SIZE) as world:
            found = cases_of(world)
        dist.destroy_process_group()
        (folder / f"rank{rank}").write_bytes(pickle.dumps(found))
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(folder: Path) -> int:
    torch.set_num_threads(1)
    ranks = []
    for rank in range(SIZE):
        child = os.fork()
        if child == 0:
            rank_main(rank, folder)
        ranks.append(child)
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in ranks)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
