"""Meets the other ranks of examples/meet.cpp with nothing but stock PyTorch.

    python examples/meet_torch.py tcp://127.0.0.1:29500 RANK WORLD

Each rank leaves its name in the store, reads the names of all, and waits until all have done so.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from urllib.parse import urlsplit

import torch
import torch.distributed as dist


def meet(store: dist.Store, rank: int, world: int) -> None:
    version = torch.__version__.split("+")[0]
    store.set(f"meet/name/{rank}", f"PyTorch {version} process {os.getpid()}")
    for other in range(world):
        if other != rank:
            name = store.get(f"meet/name/{other}").decode()  # waits until it is there
            print(f"rank {rank} sees rank {other}: {name}", flush=True)
    if store.add("meet/count", 1) == world:
        store.set("meet/done", "everybody was here")
    print(f"rank {rank} leaves: {store.get('meet/done').decode()}", flush=True)


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    address = urlsplit(sys.argv[1])
    rank, world = int(sys.argv[2]), int(sys.argv[3])
    store = dist.TCPStore(
        address.hostname or "127.0.0.1",
        address.port or 29500,
        is_master=False,
        wait_for_workers=False,
        timeout=timedelta(seconds=30),
    )
    meet(store, rank, world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
