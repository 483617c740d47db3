"""The operations of a ProcessGroup, under the names that torch's class has for them.

They give a Work; ranks are those of the group. The functions of unisono.distributed end here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unisono._work import milliseconds
from unisono.distributed._kinds import Op, ReduceOp, Work, plain

if TYPE_CHECKING:
    from unisono import Group

Array = Any
Timeout = timedelta | None


class GroupCalls:
    """What can be done with arrays."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._submit = group._core.submit

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._group.rank

    def size(self) -> int:
        """How many ranks the group has."""
        return self._group.size

    def abort(self) -> None:
        """Fails what is under way and all that comes later, on every rank."""
        self._group.abort()

    def shutdown(self) -> None:
        """Ends it in order."""
        self._group.close()

    def set_timeout(self, timeout: timedelta) -> None:
        """How long operations may take that have no timeout of their own."""
        self._group._core.set_timeout(milliseconds(timeout))

    def start(
        self,
        operation: str,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        *,
        op: Op = ReduceOp.SUM,
        root: int = -1,
        peer: int = -1,
        tag: int = 0,
        async_op: bool = True,
        timeout: Timeout = None,
        input_splits: Sequence[int] = (),
        output_splits: Sequence[int] = (),
    ) -> Work:
        """Starts an operation, and waits for it unless `async_op`."""
        most = -1 if timeout is None else milliseconds(timeout)
        work = self._submit(
            operation,
            inputs,
            outputs,
            plain(op),
            root,
            peer,
            tag,
            async_op,
            most,
            input_splits,
            output_splits,
        )
        return Work(work, list(outputs))

    def allreduce(self, tensors: Array, op: Op = ReduceOp.SUM, timeout: Timeout = None) -> Work:
        """Everybody gets the reduction of all, in place."""
        return self.start("all_reduce", (), _listed(tensors), op=op, timeout=timeout)

    def broadcast(self, tensor: Array, root: int, timeout: Timeout = None) -> Work:
        """Everybody gets the root's elements, in place."""
        return self.start("broadcast", (), _listed(tensor), root=root, timeout=timeout)

    def reduce(
        self, tensor: Array, root: int, op: Op = ReduceOp.SUM, timeout: Timeout = None
    ) -> Work:
        """The root gets the reduction of all, in place."""
        return self.start("reduce", (), _listed(tensor), op=op, root=root, timeout=timeout)

    def allgather(
        self, output_tensors: list[Array], input_tensor: Array, timeout: Timeout = None
    ) -> Work:
        """Everybody gets the arrays of all, by rank."""
        lists = [len(output_tensors)]
        return self.start(
            "all_gather", (input_tensor,), output_tensors, timeout=timeout, output_splits=lists
        )

    def all_gather_single(
        self,
        output: Array,
        input: Array,  # noqa: A002 (torch's name)
        timeout: Timeout = None,
    ) -> Work:
        """Everybody gets the arrays of all, one after the other, in one."""
        return self.start("all_gather_single", (input,), (output,), timeout=timeout)

    def gather(
        self,
        output_tensors: list[Array],
        input_tensor: Array,
        root: int,
        timeout: Timeout = None,
    ) -> Work:
        """The root gets the arrays of all, by rank; the others give an empty list."""
        lists = [len(output_tensors)] if output_tensors else []
        return self.start(
            "gather",
            (input_tensor,),
            output_tensors,
            root=root,
            timeout=timeout,
            output_splits=lists,
        )

    def scatter(
        self,
        output_tensor: Array,
        input_tensors: list[Array],
        root: int,
        timeout: Timeout = None,
    ) -> Work:
        """Rank r gets array r of the root's list; the others give an empty one."""
        lists = [len(input_tensors)] if input_tensors else []
        return self.start(
            "scatter",
            input_tensors,
            (output_tensor,),
            root=root,
            timeout=timeout,
            input_splits=lists,
        )

    def reduce_scatter(
        self,
        output: Array,
        input: list[Array],  # noqa: A002 (torch's name)
        op: Op = ReduceOp.SUM,
        timeout: Timeout = None,
    ) -> Work:
        """Rank r gets the reduction of everybody's array r."""
        return self.start(
            "reduce_scatter", input, (output,), op=op, timeout=timeout, input_splits=[len(input)]
        )

    def alltoall(
        self, output_tensors: list[Array], input_tensors: list[Array], timeout: Timeout = None
    ) -> Work:
        """Rank r gets array r of everybody's list, by rank."""
        return self.start("all_to_all", input_tensors, output_tensors, timeout=timeout)

    def send(self, tensors: list[Array], dstRank: int, tag: int) -> Work:  # noqa: N803
        """To a rank, which receives as many elements with the same tag."""
        return self.start("send", tensors, (), peer=dstRank, tag=tag)

    def recv(self, tensors: list[Array], srcRank: int, tag: int) -> Work:  # noqa: N803
        """From a rank, in place."""
        return self.start("recv", (), tensors, peer=srcRank, tag=tag)

    def recv_anysource(self, tensors: list[Array], tag: int) -> Work:
        """From whoever sends first, in place."""
        return self.start("recv_anysource", (), tensors, tag=tag)

    def barrier(self, timeout: Timeout = None) -> Work:
        """Ends when everybody has called it."""
        return self.start("barrier", (), (), timeout=timeout)

    def monitored_barrier(self, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """Waits for all ranks; on rank 0 the error says who has not come."""
        self._group.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)


def _listed(tensors: Array) -> Sequence[Array]:
    return tensors if isinstance(tensors, list | tuple) else (tensors,)
