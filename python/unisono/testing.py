"""Worlds for tests: ranks as threads of this process, or as processes that run one function.

A rank can be made to fail where a test wants it to:

    with pytest.raises(unisono.PeerDeadError):
        run(train, nprocs=4, fault=kill(rank=2, call=10))
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, TypeVar

from unisono._core import HashStore
from unisono._faults import Fault, Killed, delay, kill, mismatch, with_faults
from unisono._group import Group, init

__all__ = [
    "Fault",
    "Killed",
    "LocalWorld",
    "delay",
    "kill",
    "local_world",
    "mismatch",
    "run",
]

T = TypeVar("T")


class LocalWorld(list[Group]):
    """The groups of all ranks, by rank: each is used by a thread of its own."""

    def run(self, function: Callable[[Group], T]) -> list[T]:
        """Calls `function` for every rank at once; returns what it gives, by rank.

        A rank whose call raises leaves the world, so that nobody waits for it; what the first of
        them raised is raised when all have ended; that a rank was killed only if nothing else.
        """
        errors: list[BaseException] = []

        def call(group: Group) -> T:
            try:
                return function(group)
            except BaseException as error:
                errors.append(error)
                group._leave()
                raise

        with ThreadPoolExecutor(len(self)) as threads:
            calls = [threads.submit(call, group) for group in self]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, Killed))
        return _results(calls)


@contextmanager
def local_world(
    size: int, *, timeout: float = 60.0, fault: Fault | Sequence[Fault] = ()
) -> Iterator[LocalWorld]:
    """A world whose ranks are threads of this process, on the same code as ranks of one host.

    `fault` is one of kill(), delay() and mismatch(), or several.
    """
    store = HashStore()

    def meet(rank: int) -> Group:
        group = init(store=store, rank=rank, size=size, timeout=timeout)
        return with_faults(group, fault, is_process=False)

    with ThreadPoolExecutor(size) as threads:
        world = LocalWorld(_results([threads.submit(meet, rank) for rank in range(size)]))
    try:
        yield world
    except BaseException:
        for group in world:
            group._leave()
        raise
    world.run(Group.close)


def run(
    function: Callable[[Group], T],
    nprocs: int,
    *,
    timeout: float = 60.0,
    fault: Fault | Sequence[Fault] = (),
) -> list[T]:
    """Calls `function` in `nprocs` new processes, each a rank; returns what it gives, by rank.

    The function must be one that a new interpreter can import, and what it gives one that can be
    pickled. A rank whose call raises leaves the world; what the first of them raised is raised.
    `fault` is one of kill(), delay() and mismatch(), or several.
    """
    context = multiprocessing.get_context("spawn")
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(nprocs):
            mine, theirs = context.Pipe(duplex=False)
            where = (f"file://{Path(folder) / 'store'}", rank, nprocs, timeout, fault)
            process = context.Process(target=_rank, args=(function, where, theirs), daemon=True)
            process.start()
            theirs.close()
            ends.append((process, mine))
        try:
            outcomes: list[_Outcome[T]] = [
                _outcome(mine, rank, timeout) for rank, (_, mine) in enumerate(ends)
            ]
        finally:
            for process, _ in ends:
                process.kill()  # it has said all, or is late
                process.join()
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        raise min(failed, key=lambda outcome: outcome.when).error or AssertionError
    return [outcome.value for outcome in outcomes]


def _results(calls: list[Future[T]]) -> list[T]:
    return [call.result() for call in calls]


class _Outcome(Generic[T]):
    """What a rank's call gave, or raised, and when; the clock is the same for all processes."""

    def __init__(self, value: T, error: BaseException | None = None, when: float = inf) -> None:
        self.value = value
        self.error = error
        self.when = when


def _rank(
    function: Callable[[Group], T],
    where: tuple[str, int, int, float, Fault | Sequence[Fault]],
    out: Connection,
) -> None:
    url, rank, size, timeout, fault = where
    try:
        with init(url, rank=rank, size=size, timeout=timeout) as world:
            with_faults(world, fault, is_process=True)
            try:
                value = function(world)
            except BaseException as error:
                out.send(_Outcome(None, error, time.monotonic()))
                raise
    except BaseException as error:  # of meeting or closing, if nothing has been said before
        out.send(_Outcome(None, error, time.monotonic()))
    else:
        out.send(_Outcome(value))


def _outcome(end: Connection, rank: int, timeout: float) -> _Outcome[T]:
    """What a rank has sent; an error when it sent nothing in time, or died."""
    try:
        if end.poll(timeout):
            outcome: _Outcome[T] = end.recv()
            return outcome
        error: Exception = TimeoutError(f"rank {rank} has not ended within {timeout} s")
    except EOFError:
        error = RuntimeError(f"rank {rank} ended without a word")
    return _Outcome(None, error)  # type: ignore[arg-type]
