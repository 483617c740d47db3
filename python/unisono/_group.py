"""Group: ranks that work together on arrays; init() meets them."""

from __future__ import annotations

import atexit
import math
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from unisono import _core
from unisono._arrays import Array
from unisono._last_words import leave_last_words, note
from unisono._object_calls import Exchange
from unisono._operations import Operations, Result, Timeout
from unisono._work import milliseconds


class _User(Protocol):
    """A training, or whatever else must let go when its group is left."""

    def _leave(self) -> None: ...


class Group(Operations):
    """Ranks that work together. Every rank makes the same calls in the same order.

    Arrays are used where they are, without a copy. An operation returns what holds its result: the
    array it was given for it, or a new one. With `async_op=True` it returns a Work at once, and
    its arrays are not to be touched before that has ended.
    """

    __slots__ = ("__weakref__", "_closed", "_core", "_users", "desc", "name", "rank", "size")

    def __init__(self, core: _core.Group) -> None:
        self._core = core
        self._closed = False
        self._users: weakref.WeakSet[_User] = weakref.WeakSet()  # what else holds the group
        self.rank: int = core.rank
        self.size: int = core.size
        self.name: str = core.name
        self.desc: str = core.desc
        _living.add(self)

    def __repr__(self) -> str:
        said = f" ({self.desc})" if self.desc else ""
        state = ", closed" if self._closed else ""
        return f"<unisono.Group {self.name!r}: rank {self.rank} of {self.size}{said}{state}>"

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
            if error is not None:
                note(error)
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
        for user in list(self._users):
            user._leave()
        self._core.leave()

    @property
    def _handle(self) -> _core.Group:
        """What the extension takes for it, also behind the faults of a test."""
        handle: _core.Group = getattr(self._core, "_inner", self._core)
        return handle

    def monitored_barrier(self, *, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """As barrier(); on rank 0 the error says who has not come: the first, or all of them."""
        self._core.monitored_barrier(milliseconds(timeout), wait_all_ranks)

    def broadcast_object(
        self,
        value: object = None,
        root: int = 0,
        *,
        unsafe_pickle: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Everybody gets the root's object; what the others give does not count.

        An object is data: None, bool, int, float, str, bytes, and lists, tuples and dicts of them.
        With `unsafe_pickle`, on every rank, it is anything that can be pickled: who reads a pickle
        runs what its writer wants.
        """
        return Exchange(self, unsafe_pickle, timeout).broadcast(value, root)

    def all_gather_object(
        self, value: object, *, unsafe_pickle: bool = False, timeout: Timeout = None
    ) -> list[Result]:
        """Everybody gets the objects of all, by rank; see broadcast_object()."""
        return Exchange(self, unsafe_pickle, timeout).all_gather(value)

    def gather_object(
        self,
        value: object,
        root: int = 0,
        *,
        unsafe_pickle: bool = False,
        timeout: Timeout = None,
    ) -> list[Result] | None:
        """The root gets the objects of all, by rank; see broadcast_object()."""
        return Exchange(self, unsafe_pickle, timeout).gather(value, root)

    def scatter_object(
        self,
        values: Sequence[object] | None,
        root: int = 0,
        *,
        unsafe_pickle: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets object r of the root's list; see broadcast_object()."""
        return Exchange(self, unsafe_pickle, timeout).scatter(values, root)

    def allocate(self, shape: int | Sequence[int], dtype: object = "float32") -> Array:
        """An array of NumPy's, of zeros, in memory that the other ranks reach where it is.

        Operations on it, or on parts of it, copy nothing in between. The memory goes with the last
        array that looks at it, also after the group.
        """
        import numpy

        kind = numpy.dtype(dtype)  # type: ignore[call-overload]
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        octets: Array = self._core.allocate(kind.itemsize * math.prod(lengths))
        return octets.view(kind).reshape(lengths)

    def split(self, color: int | None, name: str = "") -> Group | None:
        """A group of those who give the same `color`, in the order of their ranks here.

        Every rank calls it, with the same `name`, by which errors call the group; who gives None
        for a color gets None.
        """
        core = self._core.split(color, name)
        return None if core is None else Group(core)

    def new_group(self, ranks: Sequence[int]) -> Group | None:
        """A group of `ranks` of this one. Every rank calls it; those outside get None."""
        core = self._core.split_group([list(ranks)], -1, "", True)
        return None if core is None else Group(core)


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

    Which rank this is, of how many, say the arguments, else UNISONO_RANK and UNISONO_SIZE, else the
    launcher: torchrun, Open MPI, PMI, or a step of Slurm; without any this is a world of one. The
    ranks meet at `url` (tcp://host:port, file:///path), else at `store`, else at the URL of
    UNISONO_STORE, else at MASTER_ADDR and MASTER_PORT; without these, ranks that Open MPI, MPICH or
    Slurm have all started on one host meet in a folder of the user's. `timeout` is for the meeting,
    and for every operation that has none of its own.

    Where a launcher asks for it (TORCHELASTIC_ERROR_FILE), an exception that nobody catches is from
    then on also written to its file.
    """
    leave_last_words()
    return Group(_core.init_group(url, store, rank, size, name, backend, milliseconds(timeout)))


_living: weakref.WeakSet[Group] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Before the interpreter closes: the threads of groups may still need it to end their work."""
    for group in list(_living):
        group._leave()
