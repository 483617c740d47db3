"""Worlds for tests: ranks as threads of this process, or as processes that run one function."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from unisono._core import HashStore
from unisono._group import Group, init

__all__ = ["LocalWorld", "local_world", "run"]

T = TypeVar("T")


class LocalWorld(list[Group]):
    """The groups of all ranks, by rank: each is used by a thread of its own."""

    def run(self, function: Callable[[Group], T]) -> list[T]:
        """Calls `function` for every rank at once; returns what it gives, by rank.

        What one raises is raised when all have ended, that of the lowest rank first.
        """
        with ThreadPoolExecutor(len(self)) as threads:
            return _results([threads.submit(function, group) for group in self])


@contextmanager
def local_world(size: int, *, timeout: float = 60.0) -> Iterator[LocalWorld]:
    """A world whose ranks are threads of this process, on the same code as ranks of one host."""
    store = HashStore()

    def meet(rank: int) -> Group:
        return init(store=store, rank=rank, size=size, timeout=timeout)

    with ThreadPoolExecutor(size) as threads:
        world = LocalWorld(_results([threads.submit(meet, rank) for rank in range(size)]))
    try:
        yield world
    except BaseException:
        for group in world:
            group._leave()
        raise
    world.run(Group.close)


def run(function: Callable[[Group], T], nprocs: int, *, timeout: float = 60.0) -> list[T]:
    """Calls `function` in `nprocs` new processes, each a rank; returns what it gives, by rank.

    The function must be one that a new interpreter can import, and what it gives one that can be
    pickled. What one raises is raised here, that of the lowest rank first.
    """
    context = multiprocessing.get_context("spawn")
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(nprocs):
            mine, theirs = context.Pipe(duplex=False)
            where = (f"file://{Path(folder) / 'store'}", rank, nprocs, timeout)
            process = context.Process(target=_rank, args=(function, where, theirs), daemon=True)
            process.start()
            theirs.close()
            ends.append((process, mine))
        try:
            outcomes: list[tuple[T, BaseException | None]] = [
                _outcome(mine, rank, timeout) for rank, (_, mine) in enumerate(ends)
            ]
        finally:
            for process, _ in ends:
                process.kill()  # it has said all, or is late
                process.join()
    for _, error in outcomes:
        if error is not None:
            raise error
    return [value for value, _ in outcomes]


def _results(calls: list[Future[T]]) -> list[T]:
    return [call.result() for call in calls]


def _rank(
    function: Callable[[Group], T], where: tuple[str, int, int, float], out: Connection
) -> None:
    url, rank, size, timeout = where
    try:
        with init(url, rank=rank, size=size, timeout=timeout) as world:
            value = function(world)
    except BaseException as error:
        out.send((None, error))
    else:
        out.send((value, None))


def _outcome(end: Connection, rank: int, timeout: float) -> tuple[T, BaseException | None]:
    """What a rank has sent; an error when it sent nothing in time, or died."""
    try:
        if end.poll(timeout):
            outcome: tuple[T, BaseException | None] = end.recv()
            return outcome
        error: Exception = TimeoutError(f"rank {rank} has not ended within {timeout} s")
    except EOFError:
        error = RuntimeError(f"rank {rank} ended without a word")
    return None, error  # type: ignore[return-value]
