"""Two ranks meet through a store: python store_python.py RANK PORT.

Rank 0 runs the server. The import is the only line that differs from a program for torch.
"""

from __future__ import annotations

import sys

from unisono.distributed import TCPStore


def main(rank: int, port: int) -> None:
    store = TCPStore("127.0.0.1", port, world_size=2, is_master=rank == 0)
    store.set(f"name/{rank}", "Anna" if rank == 0 else "Bela")
    other = store.get(f"name/{1 - rank}").decode()  # waits for it
    store.barrier("met", 2)
    print(f"rank {rank} met {other}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
