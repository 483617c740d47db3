"""The operations of a ProcessGroup, under the names that torch's class has for them.

They give a Work; ranks are those of the group. The functions of unisono.distributed end here. As in
c10d, what follows the arrays may also come bundled: `group.allreduce([array], options)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from unisono._refusal import refusal
from unisono.distributed._kinds import Op, ReduceOp
from unisono.distributed._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    takes,
)
from unisono.distributed._works import Work

Array = Any
Arrays = list[Any]
"""One for each rank; or, as c10d has it, a list of one such list."""
Timeout = timedelta | None


class GroupCalls:
    """What can be done with arrays, by a group or by a backend."""

    def start(self, *call: Any, **told: Any) -> Any:  # noqa: ANN401 (as the method has it)
        """Starts an operation, by the method that the class has for it; see NativeCalls."""
        raise NotImplementedError

    def _begin(self, *call: Any, **told: Any) -> Work:  # noqa: ANN401 (as start())
        """What the methods here do, where a class has none of its own."""
        raise NotImplementedError

    @takes(AllreduceOptions)
    def allreduce(self, tensors: Array, op: Op = ReduceOp.SUM, timeout: Timeout = None) -> Work:
        """Everybody gets the reduction of all, in place."""
        return self._begin("all_reduce", (), _listed(tensors), op=op, timeout=timeout)

    @takes(AllreduceCoalescedOptions)
    def allreduce_coalesced(
        self, tensors: list[Array], op: Op = ReduceOp.SUM, timeout: Timeout = None
    ) -> Work:
        """allreduce() of several arrays."""
        return self._begin("all_reduce_coalesced", (), tensors, op=op, timeout=timeout)

    @takes(BroadcastOptions)
    def broadcast(self, tensor: Array, root: int = 0, timeout: Timeout = None) -> Work:
        """Everybody gets the root's elements, in place."""
        return self._begin("broadcast", (), _listed(tensor), root=root, timeout=timeout)

    @takes(ReduceOptions)
    def reduce(
        self, tensor: Array, root: int = 0, op: Op = ReduceOp.SUM, timeout: Timeout = None
    ) -> Work:
        """The root gets the reduction of all, in place."""
        return self._begin("reduce", (), _listed(tensor), op=op, root=root, timeout=timeout)

    @takes(AllgatherOptions)
    def allgather(
        self, output_tensors: Arrays, input_tensor: Array, timeout: Timeout = None
    ) -> Work:
        """Everybody gets the arrays of all, by rank."""
        outputs = _inner(output_tensors)
        return self._begin(
            "all_gather",
            _listed(input_tensor),
            outputs,
            timeout=timeout,
            output_splits=[len(outputs)],
        )

    @takes(AllgatherOptions)
    def allgather_coalesced(
        self, output_lists: list[list[Array]], input_list: list[Array], timeout: Timeout = None
    ) -> Work:
        """allgather() of several arrays: list r gets those of rank r."""
        outputs = [array for each in output_lists for array in each]
        splits = [len(each) for each in output_lists]
        return self._begin(
            "all_gather_coalesced", input_list, outputs, timeout=timeout, output_splits=splits
        )

    @takes(AllgatherOptions)
    def all_gather_single(
        self,
        output: Array,
        input: Array,  # noqa: A002 (torch's name)
        timeout: Timeout = None,
    ) -> Work:
        """Everybody gets the arrays of all, one after the other, in one."""
        return self._begin("all_gather_single", (input,), (output,), timeout=timeout)

    @takes(AllgatherOptions)
    def all_gather_single_coalesced(
        self, outputs: list[Array], inputs: list[Array], timeout: Timeout = None
    ) -> Work:
        """all_gather_single() of several arrays."""
        return self._begin("all_gather_single_coalesced", inputs, outputs, timeout=timeout)

    @takes(GatherOptions)
    def gather(
        self,
        output_tensors: Arrays,
        input_tensor: Array,
        root: int = 0,
        timeout: Timeout = None,
    ) -> Work:
        """The root gets the arrays of all, by rank; the others give an empty list."""
        outputs = _inner(output_tensors)
        return self._begin(
            "gather",
            _listed(input_tensor),
            outputs,
            root=root,
            timeout=timeout,
            output_splits=[len(outputs)] if outputs else [],
        )

    @takes(ScatterOptions)
    def scatter(
        self,
        output_tensor: Array,
        input_tensors: Arrays,
        root: int = 0,
        timeout: Timeout = None,
    ) -> Work:
        """Rank r gets array r of the root's list; the others give an empty one."""
        inputs = _inner(input_tensors)
        return self._begin(
            "scatter",
            inputs,
            _listed(output_tensor),
            root=root,
            timeout=timeout,
            input_splits=[len(inputs)] if inputs else [],
        )

    @takes(ReduceScatterOptions)
    def reduce_scatter(
        self,
        output: Array,
        input: Arrays,  # noqa: A002 (torch's name)
        op: Op = ReduceOp.SUM,
        timeout: Timeout = None,
    ) -> Work:
        """Rank r gets the reduction of everybody's array r."""
        inputs = _inner(input)
        return self._begin(
            "reduce_scatter",
            inputs,
            _listed(output),
            op=op,
            timeout=timeout,
            input_splits=[len(inputs)],
        )

    @takes(ReduceScatterOptions)
    def reduce_scatter_single(
        self,
        outputTensor: Array,  # noqa: N803
        inputTensor: Array,  # noqa: N803
        op: Op = ReduceOp.SUM,
        timeout: Timeout = None,
    ) -> Work:
        """Rank r gets part r of the reduction of everybody's array."""
        return self._begin(
            "reduce_scatter_single", (inputTensor,), (outputTensor,), op=op, timeout=timeout
        )

    @takes(ReduceScatterOptions)
    def reduce_scatter_single_coalesced(
        self,
        outputs: list[Array],
        inputs: list[Array],
        op: Op = ReduceOp.SUM,
        timeout: Timeout = None,
    ) -> Work:
        """reduce_scatter_single() of several arrays."""
        return self._begin(
            "reduce_scatter_single_coalesced", inputs, outputs, op=op, timeout=timeout
        )

    @takes(AllToAllOptions)
    def alltoall(
        self, output_tensors: list[Array], input_tensors: list[Array], timeout: Timeout = None
    ) -> Work:
        """Rank r gets array r of everybody's list, by rank."""
        return self._begin("all_to_all", input_tensors, output_tensors, timeout=timeout)

    @takes(AllToAllOptions)
    def all_to_all_single(
        self,
        output: Array,
        input: Array,  # noqa: A002 (torch's name)
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        timeout: Timeout = None,
    ) -> Work:
        """Rows from everybody, by rank, and rows to everybody; equal parts for empty splits."""
        return self._begin(
            "all_to_all_single",
            (input,),
            (output,),
            timeout=timeout,
            input_splits=input_split_sizes,
            output_splits=output_split_sizes,
        )

    # Torch's other names for the same.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def send(self, tensors: list[Array], dstRank: int, tag: int) -> Work:  # noqa: N803
        """To a rank, which receives as many elements with the same tag."""
        return self._begin("send", tensors, (), peer=dstRank, tag=tag)

    def recv(self, tensors: list[Array], srcRank: int, tag: int) -> Work:  # noqa: N803
        """From a rank, in place."""
        return self._begin("recv", (), tensors, peer=srcRank, tag=tag)

    def recv_anysource(self, tensors: list[Array], tag: int) -> Work:
        """From whoever sends first, in place."""
        return self._begin("recv_anysource", (), tensors, tag=tag)

    @takes(BarrierOptions)
    def barrier(self, timeout: Timeout = None) -> Work:
        """Ends when everybody has called it."""
        return self._begin("barrier", (), (), timeout=timeout)


def _listed(tensors: Array) -> Sequence[Array]:
    return tensors if isinstance(tensors, list | tuple) else (tensors,)


def _inner(arrays: Arrays) -> Arrays:
    """Of a list of lists, which has one for each of this process's devices, the only one."""
    if not arrays or not isinstance(arrays[0], list | tuple):
        return arrays
    if len(arrays) > 1:
        raise refusal(f"there are {len(arrays)} lists, but one device: that of the CPU")
    return list(arrays[0])
