"""The collective operations, as functions of a group."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unisono._arrays import Array
from unisono._refusal import refusal
from unisono.distributed._kinds import Op, ReduceOp, plain
from unisono.distributed._state import (
    ProcessGroup,
    check_timeout,
    group_rank_of,
    member_group,
)
from unisono.distributed._works import Work

if TYPE_CHECKING:
    from unisono._future import Future

Group = ProcessGroup | None

_NOT_ON_COMPLEX = ("MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR")


def supports_complex(reduceOp: Op) -> bool:  # noqa: N803 (torch's name)
    """Whether complex numbers can be reduced that way."""
    return plain(reduceOp) not in _NOT_ON_COMPLEX


def _list(param: object, name: str) -> list[Array]:
    """`param`, which must be a list: an array in its place would be one by its rows."""
    if not isinstance(param, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[Array], "
            f"but got {type(param)} instead."
        )
    return param


def _same_dtype(*arrays: Array) -> None:
    kinds = {str(getattr(array, "dtype", None)) for array in arrays}
    if len(kinds) > 1:
        raise refusal(
            f"Invalid usage of tensors with different dtypes: found {', '.join(sorted(kinds))}"
        )


def all_reduce(
    tensor: Array, op: Op = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Everybody gets the reduction of all, in place."""
    pg = member_group(group, "all_reduce")
    if pg is None:
        return None
    work = pg.start("all_reduce", (), (tensor,), op=op, async_op=async_op)
    return work if async_op else None


def all_reduce_coalesced(
    tensors: Array | list[Array], op: Op = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Future | None:
    """all_reduce() of several arrays as one operation; gives a Future if `async_op`."""
    arrays = tensors if isinstance(tensors, list) else [tensors]
    _same_dtype(*arrays)
    pg = member_group(group, "all_reduce_coalesced")
    if pg is None:
        return None
    work = pg.start("all_reduce_coalesced", (), arrays, op=op, async_op=async_op)
    return work.get_future() if async_op else None


def broadcast(
    tensor: Array,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Everybody gets the elements of one rank, in place."""
    pg = member_group(group, "broadcast")
    if pg is None:
        return None
    root = group_rank_of(pg, src, group_src)
    work = pg.start("broadcast", (), (tensor,), root=root, async_op=async_op)
    return work if async_op else None


def reduce(
    tensor: Array,
    dst: int | None = None,
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """One rank gets the reduction of all, in place."""
    pg = member_group(group, "reduce")
    if pg is None:
        return None
    root = group_rank_of(pg, dst, group_dst)
    work = pg.start("reduce", (), (tensor,), op=op, root=root, async_op=async_op)
    return work if async_op else None


def all_gather(
    tensor_list: list[Array], tensor: Array, group: Group = None, async_op: bool = False
) -> Work | None:
    """Everybody gets the arrays of all, by rank."""
    outputs = _list(tensor_list, "tensor_list")
    _same_dtype(*outputs, tensor)
    pg = member_group(group, "all_gather")
    if pg is None:
        return None
    work = pg.start(
        "all_gather", (tensor,), outputs, async_op=async_op, output_splits=[len(outputs)]
    )
    return work if async_op else None


def all_gather_single(
    output_tensor: Array, input_tensor: Array, group: Group = None, async_op: bool = False
) -> Work | None:
    """Everybody gets the arrays of all, one after the other, in one."""
    pg = member_group(group, "all_gather_single")
    if pg is None:
        return None
    work = pg.start("all_gather_single", (input_tensor,), (output_tensor,), async_op=async_op)
    return work if async_op else None


def all_gather_into_tensor(
    output_tensor: Array, input_tensor: Array, group: Group = None, async_op: bool = False
) -> Work | None:
    """As all_gather_single()."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Array]],
    input_tensor_list: list[Array],
    group: Group = None,
    async_op: bool = False,
) -> Future | None:
    """all_gather() of several arrays: list r gets those of rank r. A Future if `async_op`."""
    inputs = _list(input_tensor_list, "input_tensor_list")
    lists = [_list(each, "output_tensor_lists") for each in output_tensor_lists]
    outputs = [array for each in lists for array in each]
    _same_dtype(*inputs)
    _same_dtype(*outputs)
    pg = member_group(group, "all_gather_coalesced")
    if pg is None:
        return None
    splits = [len(each) for each in lists]
    work = pg.start(
        "all_gather_coalesced", inputs, outputs, async_op=async_op, output_splits=splits
    )
    return work.get_future() if async_op else None


def gather(
    tensor: Array,
    gather_list: list[Array] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """One rank, 0 if none is said, gets the arrays of all, by rank."""
    pg = member_group(group, "gather")
    if pg is None:
        return None
    root = _root(pg, dst, group_dst)
    outputs = check_gather_list(pg, root, gather_list)
    _same_dtype(tensor, *outputs)
    work = pg.start(
        "gather",
        (tensor,),
        outputs,
        root=root,
        async_op=async_op,
        output_splits=[len(outputs)] if outputs else [],
    )
    return work if async_op else None


def scatter(
    tensor: Array,
    scatter_list: list[Array] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Rank r gets array r of the list of one rank, 0 if none is said."""
    pg = member_group(group, "scatter")
    if pg is None:
        return None
    root = _root(pg, src, group_src)
    inputs = _list(scatter_list, "scatter_list") if scatter_list else []
    if pg.rank() == root and not inputs:
        raise refusal("Argument ``scatter_list`` must be specified on source rank")
    if pg.rank() != root and inputs:
        raise refusal("Argument ``scatter_list`` must NOT be specified on non-source ranks")
    _same_dtype(tensor, *inputs)
    work = pg.start(
        "scatter",
        inputs,
        (tensor,),
        root=root,
        async_op=async_op,
        input_splits=[len(inputs)] if inputs else [],
    )
    return work if async_op else None


def _root(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """Rank 0 of the world, if none is said."""
    if global_rank is None and group_rank is None:
        global_rank = 0
    return group_rank_of(pg, global_rank, group_rank)


def check_gather_list(pg: ProcessGroup, root: int, given: list[Any] | None) -> list[Any]:
    """The list that results go to, which the root has to give, and nobody else."""
    if pg.rank() == root and not given:
        raise refusal("Argument ``gather_list`` must be specified on destination rank")
    if pg.rank() != root and given:
        raise refusal("Argument ``gather_list`` must NOT be specified on non-destination ranks")
    return _list(given, "gather_list") if given else []


def reduce_scatter(
    output: Array,
    input_list: list[Array],
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Rank r gets the reduction of everybody's array r."""
    inputs = _list(input_list, "input_list")
    _same_dtype(output, *inputs)
    pg = member_group(group, "reduce_scatter")
    if pg is None:
        return None
    splits = [len(inputs)]
    work = pg.start(
        "reduce_scatter", inputs, (output,), op=op, async_op=async_op, input_splits=splits
    )
    return work if async_op else None


def reduce_scatter_single(
    output: Array,
    input: Array,  # noqa: A002 (torch's name)
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Rank r gets part r, of as many equal parts as there are ranks, of the reduction."""
    pg = member_group(group, "reduce_scatter_single")
    if pg is None:
        return None
    work = pg.start("reduce_scatter_single", (input,), (output,), op=op, async_op=async_op)
    return work if async_op else None


def reduce_scatter_tensor(
    output: Array,
    input: Array,  # noqa: A002 (torch's name)
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """As reduce_scatter_single()."""
    return reduce_scatter_single(output, input, op, group, async_op)


def all_to_all(
    output_tensor_list: list[Array],
    input_tensor_list: list[Array],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Rank r gets array r of everybody's list, by rank."""
    pg = member_group(group, "all_to_all")
    if pg is None:
        return None
    outputs = _list(output_tensor_list, "output_tensor_list")
    inputs = _list(input_tensor_list, "input_tensor_list")
    _same_dtype(*outputs, *inputs)
    work = pg.start("all_to_all", inputs, outputs, async_op=async_op)
    return work if async_op else None


def all_to_all_single(
    output: Array,
    input: Array,  # noqa: A002 (torch's name)
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Rank r gets part r of everybody's array, one after the other, in one."""
    pg = member_group(group, "all_to_all_single")
    if pg is None:
        return None
    _same_dtype(output, input)
    work = pg.start(
        "all_to_all_single",
        (input,),
        (output,),
        async_op=async_op,
        input_splits=input_split_sizes or (),
        output_splits=output_split_sizes or (),
    )
    return work if async_op else None


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: object = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Returns when everybody has called it."""
    pg = member_group(group, "barrier")
    if pg is None:
        return None
    check_timeout(timeout)
    work = pg.start("barrier", (), (), async_op=async_op, timeout=timeout)
    return work if async_op else None


def monitored_barrier(
    group: Group = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """As barrier(); on rank 0 the error says who has not come: the first, or all of them."""
    pg = member_group(group, "monitored_barrier")
    if pg is None:
        return
    limit = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
    check_timeout(limit)
    pg.monitored_barrier(limit, wait_all_ranks)
