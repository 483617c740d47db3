"""The operations of what is carried out in C++."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from unisono._work import milliseconds
from unisono.distributed._group_calls import Array, GroupCalls, Timeout
from unisono.distributed._kinds import Op, ReduceOp, plain
from unisono.distributed._works import Work

if TYPE_CHECKING:
    from unisono import Group


class NativeCalls(GroupCalls):
    """What a ProcessGroup, or a backend, does by a Group of unisono's."""

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

    _begin = start

    def monitored_barrier(self, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """Waits for all ranks; on rank 0 the error says who has not come."""
        self._group.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)
