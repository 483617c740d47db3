"""What the ranks of a group do together with arrays: collectives and messages."""

from __future__ import annotations

from array import array as plain_array
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from unisono._arrays import Array, empty_like, row_parts, rows_share, rows_times, shape_of
from unisono._refusal import refusal
from unisono._work import Work, milliseconds

if TYPE_CHECKING:
    from unisono._core import Group as CoreGroup
    from unisono._core import Work as CoreWork

Timeout = timedelta | float | None
Result = Any
"""What an operation gives; with async_op=True a Work, whose result() gives it."""
Reduction = str | tuple[str, float]
"""sum, avg, product, min, max, band, bor, bxor, or what premul_sum() gives."""


def premul_sum(factor: float) -> Reduction:
    """The reduction that multiplies each contribution by its rank's factor, and adds them."""
    return ("premul_sum", float(factor))


class P2POp(NamedTuple):
    """A message of batch_isend_irecv(): `world.isend` or `world.irecv`, and what it is told."""

    op: Callable[..., Work[Any]]
    array: Array
    peer: int | None = None
    tag: int = 0


class Operations:
    """The operations of a Group."""

    __slots__ = ()

    _core: CoreGroup
    rank: int
    size: int

    def all_reduce(
        self,
        array: Array,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Everybody gets the reduction of all, in place."""
        if not async_op and timeout is None:  # the usual call, by the shortest way
            self._core.all_reduce(array, op)
            return array
        return self._run("all_reduce", array, (), (array,), async_op, timeout, op=op)

    def broadcast(
        self, array: Array, root: int = 0, *, async_op: bool = False, timeout: Timeout = None
    ) -> Result:
        """Everybody gets the root's elements, in place."""
        if not async_op and timeout is None:
            self._core.broadcast(array, root)
            return array
        return self._run("broadcast", array, (), (array,), async_op, timeout, root=root)

    def barrier(self, *, async_op: bool = False, timeout: Timeout = None) -> Result:
        """Returns when everybody has called it."""
        if not async_op and timeout is None:
            self._core.barrier()
            return None
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
        if not async_op and timeout is None:
            self._core.reduce(array, root, op)
            return array
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

    def all_gather_into_tensor(
        self,
        output: Array,
        array: Array,
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """all_gather_single() by torch's name, and with its order of arguments."""
        return self.all_gather_single(array, output, async_op=async_op, timeout=timeout)

    def all_gather_v(
        self,
        array: Array,
        output: Array | None = None,
        output_splits: Sequence[int] = (),
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Everybody gets the arrays of all, which may differ in rows, one after the other, in one.

        `output_splits` says how many rows each rank gives. Without it the ranks first tell each
        other, for which `async_op` cannot wait.
        """
        if not output_splits:
            if async_op:
                raise refusal("all_gather_v cannot know how many rows come", "give output_splits")
            rows = plain_array("q", [len(array)])
            output_splits = list(self.all_gather_single(rows, timeout=timeout))
        if output is None:
            output = empty_like(array, (sum(output_splits), *shape_of(array)[1:]))
        parts = self._parts(output, output_splits)
        lists = [len(parts)]
        return self._run(
            "all_gather", output, (array,), parts, async_op, timeout, output_splits=lists
        )

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

    def reduce_scatter_tensor(
        self,
        output: Array,
        array: Array,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """reduce_scatter_single() by torch's name, and with its order of arguments."""
        return self.reduce_scatter_single(array, output, op, async_op=async_op, timeout=timeout)

    def reduce_scatter_v(
        self,
        array: Array,
        input_splits: Sequence[int],
        output: Array | None = None,
        op: Reduction = "sum",
        *,
        async_op: bool = False,
        timeout: Timeout = None,
    ) -> Result:
        """Rank r gets `input_splits[r]` rows of the reduction, after those of the ranks before."""
        parts = self._parts(array, input_splits)
        if output is None:
            output = empty_like(array, (input_splits[self.rank], *shape_of(array)[1:]))
        return self.reduce_scatter(parts, output, op, async_op=async_op, timeout=timeout)

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

    def batch_isend_irecv(self, ops: Sequence[P2POp]) -> list[Work[Any]]:
        """Starts all of these messages, in any order; gives a Work for each.

        When one of them is none of this group's, nothing is started.
        """
        for message in ops:
            call = message.op if isinstance(message, P2POp) else None
            if call not in (self.isend, self.irecv):
                raise refusal(
                    "batch_isend_irecv takes messages of its own group",
                    "give unisono.P2POp(world.isend, array, rank), or world.irecv",
                )
        return [message.op(message.array, message.peer, message.tag) for message in ops]

    def _check_list(self, arrays: Sequence[Array]) -> None:
        if len(arrays) != self.size:
            raise refusal(f"{len(arrays)} arrays are given for {self.size} ranks")

    def _parts(self, array: Array, splits: Sequence[int]) -> list[Array]:
        """The rows of `array` that go to, or come from, each rank."""
        if len(splits) != self.size or min(splits) < 0 or sum(splits) != len(array):
            raise refusal(
                f"splits {list(splits)} do not say what the {self.size} ranks have of "
                f"{len(array)} rows"
            )
        return row_parts(array, splits)

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
    ) -> CoreWork:
        """Starts to send or receive, and waits for it unless `async_op`."""
        most = -1 if timeout is None else milliseconds(timeout)
        return self._core.submit(
            operation, inputs, outputs, "sum", -1, peer, tag, async_op, most, (), ()
        )
