"""Objects between ranks, as functions of a group.

As in torch they travel as pickles, and reading a pickle runs whatever its writer wants: only ranks
that trust each other may use these functions. unisono.Group has those that carry data alone.
"""

from __future__ import annotations

import pickle
from array import array
from typing import Any

from unisono._object_calls import Exchange
from unisono._refusal import refusal
from unisono.distributed._collectives import _root, check_gather_list
from unisono.distributed._messages import other_rank
from unisono.distributed._state import ProcessGroup, group_rank_of, member_group

Group = ProcessGroup | None


def _exchange(pg: ProcessGroup) -> Exchange:
    return Exchange(pg._group, unsafe_pickle=True, timeout=None)


def all_gather_object(object_list: list[Any], obj: object, group: Group = None) -> None:
    """Puts the objects of all into `object_list`, by rank."""
    pg = member_group(group, "all_gather_object")
    if pg is not None:
        object_list[: pg.size()] = _exchange(pg).all_gather(obj)


def gather_object(
    obj: object,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Puts the objects of all into the list of one rank, 0 if none is said, by rank."""
    pg = member_group(group, "gather_object")
    if pg is None:
        return
    root = _root(pg, dst, group_dst)
    given = check_gather_list(pg, root, object_gather_list)
    objects = _exchange(pg).gather(obj, root)
    if objects is not None:
        given[: pg.size()] = objects


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
) -> None:
    """Everybody's `object_list` gets the objects of one rank, 0 if none is said."""
    pg = member_group(group, "broadcast_object_list")
    if pg is None:
        return
    root = _root(pg, src, group_src)
    objects: Any = _exchange(pg).broadcast(list(object_list), root)
    if len(objects) != len(object_list):
        raise refusal(f"{len(objects)} objects have come for a list of {len(object_list)}")
    if pg.rank() != root:
        object_list[:] = objects


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """The first of rank r's output list gets object r of one rank's, 0 if none is said."""
    pg = member_group(group, "scatter_object_list")
    if pg is None:
        return
    root = _root(pg, src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise refusal(
            "Expected argument scatter_object_output_list to be a list of size at least 1"
        )
    objects = scatter_object_input_list if pg.rank() == root else None
    scatter_object_output_list[0] = _exchange(pg).scatter(objects, root)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Group = None,
    device: object = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends objects to a rank, which receives as many."""
    pg = member_group(group, "send_object_list")
    if pg is None:
        return
    peer = other_rank(pg, group_rank_of(pg, dst, group_dst), "destination")
    parts = [pickle.dumps(value) for value in object_list]
    lengths = array("q", [len(part) for part in parts])
    pg.start("send", (lengths,), (), peer=peer, async_op=False)
    pg.start("send", (b"".join(parts),), (), peer=peer, async_op=False)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Puts the objects that a rank sends into `object_list`; gives that rank, of the world."""
    pg = member_group(group, "recv_object_list")
    if pg is None:
        return -1
    peer = other_rank(pg, group_rank_of(pg, src, group_src), "source")
    lengths = array("q", bytes(8 * len(object_list)))
    pg.start("recv", (), (lengths,), peer=peer, async_op=False)
    data = bytearray(sum(lengths))
    pg.start("recv", (), (data,), peer=peer, async_op=False)
    at = 0
    for i, length in enumerate(lengths):
        object_list[i] = pickle.loads(memoryview(data)[at : at + length])
        at += length
    return pg._ranks[peer]
