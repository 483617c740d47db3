"""Group: ranks that work together on arrays; init() meets them."""

from __future__ import annotations

import atexit
import math
import weakref
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from unisono import _core
from unisono._arrays import Array, empty_like, rows_share, rows_times, shape_of
from unisono._object_calls import Exchange
from unisono._refusal import refusal
from unisono._work import Work, milliseconds

Timeout = timedelta | float | None
Result = Any
"""What an operation gives; with async_op=True a Work, whose result() gives it."""
Reduction = str | tuple[str, float]
"""sum, avg, product, min, max, band, bor, bxor, or what premul_sum() gives."""


def premul_sum(factor: float) -> Reduction:
    """The reduction that multiplies each contribution by its rank's factor, and adds them."""
    return ("premul_sum", float(factor))


class Group:
    """Ranks that work together. Every rank makes the same calls in the same order.

    Arrays are used where they are, without a copy. An operation returns what holds its result: the
    array it was given for it, or a new one. With `async_op=True` it returns a Work at once, and
    its arrays are not to be touched before that has ended.
    """

    __slots__ = ("__weakref__", "_closed", "_core", "desc", "name", "rank", "size")

    def __init__(self, core: _core.Group) -> None:
        self._core = core
        self._closed = False
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
        self,
        array: Array,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
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

    def reduce(
        self,
        array: Array,
        root: int = 0,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """The root gets the reduction of all, in place; the others' arrays stay as they are."""
        return self._run("reduce", array, (), (array,), async_op, timeout, op=op, root=root)

    def all_gather(
        self,
        array: Array,
        outputs: Sequence[Array] | None = None,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Everybody gets the arrays of all, as a list by rank.

        Without `outputs` all have the shape of this rank's.
        """
        if outputs is None:
            outputs = [empty_like(array) for _ in range(self.size)]
        lists = [len(outputs)]
        return self._run(
            "all_gather", outputs, (array,), outputs, async_op, timeout, output_splits=lists
        )

    def all_gather_single(
        self,
        array: Array,
        output: Array | None = None,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Everybody gets the arrays of all, one after the other, in one."""
        if output is None:
            output = rows_times(array, self.size)
        return self._run("all_gather_single", output, (array,), (output,), async_op, timeout)

    def gather(
        self,
        array: Array,
        outputs: Sequence[Array] | None = None,
        root: int = 0,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """The root gets the arrays of all, as a list by rank; the others get None.

        Without `outputs` all have the shape of the root's.
        """
        if outputs is None and self.rank == root:
            outputs = [empty_like(array) for _ in range(self.size)]
        given = outputs or ()
        lists = [len(given)] if given else []
        return self._run(
            "gather", outputs, (array,), given, async_op, timeout, root=root, output_splits=lists
        )

    def scatter(
        self,
        arrays: Sequence[Array] | None,
        output: Array | None = None,
        root: int = 0,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets array r of the root's list; the others give None.

        They do not know the shape: only the root can do without `output`.
        """
        given = arrays or ()
        if output is None:
            if self.rank != root or len(given) != self.size:
                raise refusal("scatter cannot know the shape of its result", "give an output")
            output = empty_like(given[self.rank])
        lists = [len(given)] if given else []
        return self._run(
            "scatter", output, given, (output,), async_op, timeout, root=root, input_splits=lists
        )

    def reduce_scatter(
        self,
        arrays: Sequence[Array],
        output: Array | None = None,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets the reduction of everybody's array r."""
        if output is None:
            self._check_list(arrays)
            output = empty_like(arrays[self.rank])
        lists = [len(arrays)]
        return self._run(
            "reduce_scatter",
            output,
            arrays,
            (output,),
            async_op,
            timeout,
            op=op,
            input_splits=lists,
        )

    def reduce_scatter_single(
        self,
        array: Array,
        output: Array | None = None,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets part r, of as many equal parts as there are ranks, of the reduction."""
        if output is None:
            output = rows_share(array, self.size)
        return self._run(
            "reduce_scatter_single", output, (array,), (output,), async_op, timeout, op=op
        )

    def all_to_all(
        self,
        arrays: Sequence[Array],
        outputs: Sequence[Array] | None = None,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets array r of everybody's list, as a list by rank.

        Without `outputs` all arrays of all lists have the same shape.
        """
        if outputs is None:
            self._check_list(arrays)
            if len({shape_of(array) for array in arrays}) > 1:
                raise refusal("all_to_all cannot know the shapes of its results", "give outputs")
            outputs = [empty_like(array) for array in arrays]
        return self._run("all_to_all", outputs, arrays, outputs, async_op, timeout)

    def all_to_all_single(
        self,
        array: Array,
        output: Array | None = None,
        output_splits: Sequence[int] = (),
        input_splits: Sequence[int] = (),
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets part r of everybody's array, one after the other, in one.

        The splits say how many rows come from, and go to, each rank; without them all parts are
        equal.
        """
        if output is None:
            shape = shape_of(array)
            rows = sum(output_splits) if output_splits else shape[0] if shape else 1
            output = empty_like(array, (rows, *shape[1:]))
        return self._run(
            "all_to_all_single",
            output,
            (array,),
            (output,),
            async_op,
            timeout,
            input_splits=input_splits,
            output_splits=output_splits,
        )

    def send(
        self,
        array: Array,
        dst: int,
        tag: int = 0,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """To rank `dst`, which receives as many elements with the same tag."""
        work = self._message("send", (array,), (), dst, tag, async_op, timeout)
        return Work(work, None) if async_op else None

    def recv(
        self,
        array: Array,
        src: int | None = None,
        tag: int = 0,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """From rank `src`, or from whoever sends first, in place; gives the rank it came from.

        With async_op, Work.source_rank() tells that, and the result is the array.
        """
        operation = "recv" if src is not None else "recv_anysource"
        peer = -1 if src is None else src
        work = self._message(operation, (), (array,), peer, tag, async_op, timeout)
        return Work(work, array) if async_op else work.source_rank()

    def isend(self, array: Array, dst: int, tag: int = 0) -> Work[None]:
        """As send() with async_op=True."""
        return Work(self._message("send", (array,), (), dst, tag, True, None), None)

    def irecv(self, array: Array, src: int | None = None, tag: int = 0) -> Work[Array]:
        """As recv() with async_op=True."""
        work: Work[Array] = self.recv(array, src, tag, async_op=True)
        return work

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

    def split(self, color: int | None) -> Group | None:
        """A group of those who give the same `color`, in the order of their ranks here.

        Every rank calls it; who gives None gets None.
        """
        core = self._core.split(color)
        return None if core is None else Group(core)

    def new_group(self, ranks: Sequence[int]) -> Group | None:
        """A group of `ranks` of this one. Every rank calls it; those outside get None."""
        core = self._core.split_group([list(ranks)], -1, "", True)
        return None if core is None else Group(core)

    def _check_list(self, arrays: Sequence[Array]) -> None:
        if len(arrays) != self.size:
            raise refusal(f"{len(arrays)} arrays are given for {self.size} ranks")

    def _run(
        self,
        operation: str,
        result: Result,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        async_op: bool,
        timeout: Timeout,
        *,
        op: Reduction = "sum",
        root: int = -1,
        input_splits: Sequence[int] = (),
        output_splits: Sequence[int] = (),
    ) -> Result:
        """Starts a collective; gives `result` when it has ended, or a Work that does."""
        most = -1 if timeout is None else milliseconds(timeout)
        work = self._core.submit(
            operation,
            inputs,
            outputs,
            op,
            root,
            -1,
            0,
            async_op,
            most,
            input_splits,
            output_splits,
        )
        return Work(work, result) if async_op else result

    def _message(
        self,
        operation: str,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        peer: int,
        tag: int,
        async_op: bool,
        timeout: Timeout,
    ) -> _core.Work:
        """Starts to send or receive, and waits for it unless `async_op`."""
        most = -1 if timeout is None else milliseconds(timeout)
        return self._core.submit(
            operation, inputs, outputs, "sum", -1, peer, tag, async_op, most, (), ()
        )


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
    ranks meet at `url` (tcp://host:port, file:///path), else at `store`, else at MASTER_ADDR and
    MASTER_PORT; without these, ranks that Open MPI, MPICH or Slurm have all started on one host
    meet in a folder of the user's. `timeout` is for the meeting, and for every operation that has
    none of its own.
    """
    return Group(_core.init_group(url, store, rank, size, name, backend, milliseconds(timeout)))


_living: weakref.WeakSet[Group] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Before the interpreter closes: the threads of groups may still need it to end their work."""
    for group in list(_living):
        group._leave()
