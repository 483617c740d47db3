"""Collectives that leave their arguments alone: each returns new arrays, at once.

    import unisono.functional as funcol

    total = funcol.all_reduce(gradient, "sum", world)  # under way
    ...
    funcol.wait_tensor(total)  # can be read from here on

The names and arguments are those of torch.distributed._functional_collectives. A group is a
unisono.Group, a ProcessGroup of unisono.distributed, or the name that one is registered under.
An array that is given must not change before what was made of it has been waited for; one that is
still under way itself is waited for first.
"""

from __future__ import annotations

from collections.abc import Sequence

from unisono._arrays import Array, contiguous, copied, joined, parts_of, shape_of
from unisono._group import Group
from unisono._pending import pending
from unisono._refusal import refusal

GroupLike = object
"""A Group, a ProcessGroup, or a name."""

__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


def wait_tensor(tensor: Array) -> Array:
    """Waits until `tensor`, or what it is a view of, has been written; gives it back.

    Raises what the operation failed with. Where nothing is under way it returns at once, so it may
    be called again.
    """
    pending.wait(tensor)
    return tensor


def all_reduce(self: Array, reduceOp: str, group: GroupLike, tag: str = "") -> Array:  # noqa: N803
    """The reduction of everybody's array."""
    op = _reduction(reduceOp)
    by = _group(group, "all_reduce")
    out = copied(wait_tensor(self))
    return _started(out, by.all_reduce(out, op, async_op=True))


def broadcast(self: Array, src: int, group: GroupLike, tag: str = "") -> Array:
    """The array of rank `src` of the group."""
    by = _group(group, "broadcast")
    out = copied(wait_tensor(self))
    return _started(out, by.broadcast(out, src, async_op=True))


def all_gather_tensor(self: Array, gather_dim: int, group: GroupLike, tag: str = "") -> Array:
    """Everybody's arrays, one after the other along `gather_dim`.

    Along another than the first it waits for them, since they are put together here.
    """
    by = _group(group, "all_gather_tensor")
    dim = _dimension(self, gather_dim, "gather_dim")
    work = by.all_gather_single(contiguous(wait_tensor(self)), async_op=True)
    out = work._value
    if dim == 0:
        return _started(out, work)
    work.wait()
    return joined(parts_of(out, by.size, 0), dim)


def reduce_scatter_tensor(
    self: Array,
    reduceOp: str,  # noqa: N803
    scatter_dim: int,
    group: GroupLike,
    tag: str = "",
) -> Array:
    """This rank's part, along `scatter_dim`, of the reduction of everybody's array."""
    op = _reduction(reduceOp)
    by = _group(group, "reduce_scatter_tensor")
    dim = _dimension(self, scatter_dim, "scatter_dim")
    length = (*shape_of(self), 1)[dim]
    if length % by.size != 0:
        raise refusal(
            f"dimension {dim} of an array of shape {shape_of(self)} has {length} elements, which "
            f"cannot be shared equally by {by.size} ranks",
            "pad it to a multiple of the size of the group",
        )
    array = (
        contiguous(wait_tensor(self))
        if dim == 0
        else joined(parts_of(wait_tensor(self), by.size, dim), 0)
    )
    work = by.reduce_scatter_single(array, op=op, async_op=True)
    return _started(work._value, work)


def all_to_all_single(
    self: Array,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: GroupLike,
    tag: str = "",
) -> Array:
    """Rows from everybody, by rank, and rows to everybody; equal parts without splits."""
    by = _group(group, "all_to_all_single")
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise refusal("output_split_sizes and input_split_sizes belong together: give both or none")
    work = by.all_to_all_single(
        contiguous(wait_tensor(self)),
        output_splits=output_split_sizes or (),
        input_splits=input_split_sizes or (),
        async_op=True,
    )
    return _started(work._value, work)


def permute_tensor(self: Array, src_dst: Sequence[int], group: GroupLike, tag: str = "") -> Array:
    """The array of the rank whose place in `src_dst` names this one; all have one shape."""
    by = _group(group, "permute_tensor")
    if sorted(src_dst) != list(range(by.size)):
        raise refusal(f"src_dst must name each of the {by.size} ranks once, but is {list(src_dst)}")
    rows = shape_of(self)[0]
    given, taken = [0] * by.size, [0] * by.size
    given[src_dst[by.rank]] = rows
    taken[list(src_dst).index(by.rank)] = rows
    return all_to_all_single(self, taken, given, group)


def all_reduce_coalesced(
    self: Sequence[Array],
    reduceOp: str,  # noqa: N803
    group: GroupLike,
    tag: str = "",
) -> list[Array]:
    """all_reduce() of each."""
    return [all_reduce(each, reduceOp, group) for each in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Array], group: GroupLike, tag: str = ""
) -> list[Array]:
    """all_gather_tensor() of each, along the first dimension."""
    return [all_gather_tensor(each, 0, group) for each in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Array],
    reduceOp: str,  # noqa: N803
    scatter_dim: Sequence[int],
    group: GroupLike,
    tag: str = "",
) -> list[Array]:
    """reduce_scatter_tensor() of each, along its own dimension."""
    if len(inputs) != len(scatter_dim):
        raise refusal(f"there are {len(inputs)} arrays, but {len(scatter_dim)} dimensions for them")
    return [
        reduce_scatter_tensor(each, reduceOp, dim, group)
        for each, dim in zip(inputs, scatter_dim, strict=True)
    ]


# Torch's second spellings.
all_gather_single = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


def _started(out: Array, work: object) -> Array:
    pending.add(out, work)  # type: ignore[arg-type]
    return out


def _reduction(name: str) -> str:
    if not isinstance(name, str) or name.lower() not in _REDUCTIONS:
        raise refusal(f"Unrecognized reduce_op: {name}", f"it is one of {', '.join(_REDUCTIONS)}")
    return name.lower()


def _dimension(array: Array, dim: int, name: str) -> int:
    count = max(len(shape_of(array)), 1)  # a single element is gathered to a row
    if not -count <= dim < count:
        raise refusal(f"{name} is {dim}, of an array with {count} dimensions")
    return dim % count


def _group(given: GroupLike, call: str) -> Group:
    if isinstance(given, Group):
        return given
    from unisono.distributed._registry import _resolve_process_group
    from unisono.distributed._state import ProcessGroup

    found = _resolve_process_group(given) if isinstance(given, str) else given
    if not isinstance(found, ProcessGroup):
        raise TypeError(
            f"{call}(): argument 'group' must be a group or the name of one, "
            f"but got {type(given).__name__}"
        )
    return found._group
