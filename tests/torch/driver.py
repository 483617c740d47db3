"""Runs functions as the ranks of a world: python -m tests.torch.driver …

One is named with its file in this folder, `training.fsdp`, or alone if that is scenarios.py.
PyTorch takes seconds to import: it is imported once, and the ranks are forks of that process.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

# Longer than any operation of a test takes, on whatever machine.
LIMIT = timedelta(seconds=60)


def function_of(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"tests.torch.{module or 'scenarios'}"), function)


def rank_main(names: str, backend: str, folder: Path, rank: int, size: int) -> NoReturn:
    """One rank, to its end. What the functions return or raise is left in `folder`."""
    torch.set_num_threads(1)
    code = 0
    try:
        store = dist.FileStore(str(folder / "store"), size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LIMIT)
        outcome: object = {name: function_of(name)(rank, size) for name in names.split(",")}
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        code = 1
    torch.save(outcome, folder / f"rank{rank}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(names: str, backend: str, folder: str, size: int, hosts: int) -> int:
    for name in names.split(","):
        function_of(name)  # imports what the ranks need, before they are forked
    ranks = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            if hosts > 1:  # pretended ones: between them there is only TCP
                os.environ["UNISONO_HOST_ID"] = f"host {rank * hosts // size}"
            rank_main(names, backend, Path(folder), rank, size)
        ranks.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
    (Path(folder) / "codes").write_bytes(pickle.dumps(codes))
    return max(map(abs, codes))


if __name__ == "__main__":
    words, counts = sys.argv[1:4], sys.argv[4:]
    sys.exit(main(words[0], words[1], words[2], int(counts[0]), int(counts[1])))
