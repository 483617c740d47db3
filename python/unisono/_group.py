"""Group: ranks that work together on arrays; init() meets them."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from unisono import _core
from unisono._arrays import Array
from unisono._place import discover
from unisono._refusal import refusal
from unisono._work import Work, milliseconds

Timeout = timedelta | float | None
Result = Any
"""What an operation gives; with async_op=True a Work, whose result() gives it."""


class Group:
    """Ranks that work together. Every rank makes the same calls in the same order.

    Arrays are used where they are, without a copy. An operation returns what holds its result: the
    array it was given for it, or a new one. With `async_op=True` it returns a Work at once, and
    its arrays are not to be touched before that has ended.
    """

    __slots__ = ("__weakref__", "_closed", "_core", "name", "rank", "size")

    def __init__(self, core: _core.Group) -> None:
        self._core = core
        self._closed = False
        self.rank: int = core.rank
        self.size: int = core.size
        self.name: str = core.name
        _living.add(self)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<unisono.Group {self.name!r}: rank {self.rank} of {self.size}{state}>"

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:  # operations under way may never end: peers learn that this rank has left
            self._leave()

    def close(self) -> None:
        """Ends the group in order, for the world with all groups made out of it.

        Waits for operations under way, but no longer than the group's timeout. A second call does
        nothing.
        """
        if not self._closed:
            self._closed = True
            self._core.close()

    def abort(self) -> None:
        """Fails what is under way and all that comes later, on every rank; waits for nobody."""
        self._core.abort()

    def _leave(self) -> None:
        self._closed = True
        self._core.leave()

    def all_reduce(
        self, array: Array, op: str = "sum", *, async_op: bool = False, timeout: Timeout = None
    ) -> Result:
        """Everybody gets the reduction of all, in place."""
        return self._run("all_reduce", array, (), (array,), async_op, timeout, op=op)

    def broadcast(
        self, array: Array, root: int = 0, *, async_op: bool = False, timeout: Timeout = None
    ) -> Result:
        """Everybody gets the root's elements, in place."""
        return self._run("broadcast", array, (), (array,), async_op, timeout, root=root)

    def barrier(self, *, async_op: bool = False, timeout: Timeout = None) -> Result:
        """Returns when everybody has called it."""
        return self._run("barrier", None, (), (), async_op, timeout)

    def _run(
        self,
        operation: str,
        result: Result,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        async_op: bool,
        timeout: Timeout,
        *,
        op: str = "sum",
        root: int = -1,
        peer: int = -1,
        tag: int = 0,
        input_splits: Sequence[int] = (),
        output_splits: Sequence[int] = (),
    ) -> Result:
        """Starts an operation; gives `result` when it has ended, or a Work that does."""
        work = self._core.submit(
            operation,
            inputs,
            outputs,
            op,
            root,
            peer,
            tag,
            async_op,
            milliseconds(timeout),
            input_splits,
            output_splits,
        )
        return Work(work, result) if async_op else result


def init(
    url: str | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    store: _core.Store | None = None,
    name: str = "world",
    backend: str = "unisono",
    timeout: Timeout = None,
) -> Group:
    """Meets the other ranks.

    What is not given comes from the launcher: torchrun's RANK and WORLD_SIZE, else Open MPI's,
    PMI's, or those of a step of Slurm; without any, a world of one. The ranks meet at `url`
    (tcp://host:port, file:///path), else at `store`, else at MASTER_ADDR and MASTER_PORT.
    `timeout` is for the meeting, and for every operation that has none of its own.
    """
    place = discover(os.environ)
    if place is not None and "rank=" not in (url or ""):
        rank = place.rank if rank is None else rank
        size = place.size if size is None else size
    if store is None:
        if url is None and place is None and rank is None and size is None:
            rank, size = 0, 1
        if url is None and size == 1 and "MASTER_ADDR" not in os.environ:
            store, rank = _core.HashStore(), rank or 0
        else:
            seconds = None if timeout is None else milliseconds(timeout) / 1000
            store, rank, size = _core.meet(url or "env://", rank, size, seconds)
    elif rank is None or size is None:
        raise refusal("a store alone does not say which rank this is", "give rank and size too")
    return Group(_core.init_group(store, rank, size, name, backend, milliseconds(timeout)))


_living: weakref.WeakSet[Group] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Before the interpreter closes: the threads of groups may still need it to end their work."""
    for group in list(_living):
        group._leave()
