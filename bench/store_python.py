"""How long calls of a store take from Python: ours beside PyTorch's, in interleaved rounds.

Each library uses a server of its own, in another process.

Usage: python bench/store_python.py [--rounds N] [--calls N] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Protocol

LIBRARIES = ("unisono", "torch")
KEYS = [f"key/{i}" for i in range(1000)]


class Store(Protocol):
    """What both libraries have."""

    port: int

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def multi_set(self, keys: list[str], values: list[str], /) -> None: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...


@dataclass(frozen=True)
class Row:
    """One call: median times, and PyTorch's time over ours."""

    call: str
    unisono_us: float
    torch_us: float
    ratio: float
    least: float
    most: float


def tcp_store(library: str, port: int, server: bool) -> Store:
    module = importlib.import_module(f"{library}.distributed")
    store: Store = module.TCPStore("127.0.0.1", port, None, server, wait_for_workers=False)
    return store


def serve(library: str, ready: Connection) -> None:
    store = tcp_store(library, 0, server=True)
    ready.send(store.port)
    ready.recv()  # until it is told to go


@contextlib.contextmanager
def served(library: str) -> Iterator[Store]:
    """A client of a server in another process."""
    near, far = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(library, far))
    process.start()
    yield tcp_store(library, near.recv(), server=False)
    near.send(None)
    process.join()


def median_us(call: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def calls_of(store: Store) -> dict[str, Callable[[], object]]:
    store.set("k", "a value of 16 B.")
    store.multi_set(KEYS, ["a value of 16 B."] * len(KEYS))

    def set_and_get() -> None:
        store.set("k", "a value of 16 B.")
        store.get("k")

    return {
        "get": lambda: store.get("k"),
        "add": lambda: store.add("n", 1),
        "set, then get": set_and_get,
        "multi_get of 1000": lambda: store.multi_get(KEYS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as servers:
        stores = {name: servers.enter_context(served(name)) for name in LIBRARIES}
        calls = {name: calls_of(store) for name, store in stores.items()}
        for turn in range(options.rounds):
            for what in calls["unisono"]:
                count = max(20, options.calls // (50 if "1000" in what else 1))
                for name in LIBRARIES if turn % 2 == 0 else reversed(LIBRARIES):
                    took = median_us(calls[name][what], count)
                    figures.setdefault(what, {}).setdefault(name, []).append(took)
    rows = []
    for what, by_library in figures.items():
        ours, theirs = by_library["unisono"], by_library["torch"]
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        medians = (statistics.median(values) for values in (ours, theirs, ratios))
        rows.append(Row(what, *(round(m, 2) for m in (*medians, min(ratios), max(ratios)))))
    if options.json:
        document = {"schema": "unisono-store-python/1", "rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=2))
        return
    print(f"{'call':20} {'unisono us':>11} {'torch us':>10} {'ratio':>7}  range")
    for row in rows:
        print(
            f"{row.call:20} {row.unisono_us:11.1f} {row.torch_us:10.1f} {row.ratio:7.2f}"
            f"  {row.least} to {row.most}"
        )


if __name__ == "__main__":
    main()
