"""Messages from one rank to another, as functions of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono._arrays import Array, shape_of
from unisono._refusal import refusal
from unisono.distributed._state import (
    ProcessGroup,
    default_group,
    group_rank_of,
    member_group,
)
from unisono.distributed._works import Work

Group = ProcessGroup | None


def isend(
    tensor: Array,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Starts to send to a rank, which receives as many elements with the same tag."""
    pg = member_group(group, "isend")
    if pg is None:
        return None
    return pg.send([tensor], group_rank_of(pg, dst, group_dst), tag)


def irecv(
    tensor: Array,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Starts to receive from a rank, or from whoever sends first."""
    pg = member_group(group, "irecv")
    if pg is None:
        return None
    if src is None and group_src is None:
        return pg.recv_anysource([tensor], tag)
    return pg.recv([tensor], group_rank_of(pg, src, group_src), tag)


def send(
    tensor: Array,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends to a rank, which receives as many elements with the same tag."""
    pg = member_group(group, "send")
    if pg is None:
        return
    peer = other_rank(pg, group_rank_of(pg, dst, group_dst), "destination")
    pg.start("send", (tensor,), (), peer=peer, tag=tag, async_op=False)


def recv(
    tensor: Array,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives from a rank, or from whoever sends first; gives the rank, of the world, it was."""
    pg = member_group(group, "recv")
    if pg is None:
        return -1
    if src is None and group_src is None:
        work: Work = pg.start("recv_anysource", (), (tensor,), tag=tag, async_op=False)
        return pg._ranks[work.source_rank()]
    peer = other_rank(pg, group_rank_of(pg, src, group_src), "source")
    pg.start("recv", (), (tensor,), peer=peer, tag=tag, async_op=False)
    return pg._ranks[peer]


def other_rank(pg: ProcessGroup, rank: int, what: str) -> int:
    """`rank`, which must not be this one's own."""
    if rank == pg.rank():
        raise refusal(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of "
            "the current process"
        )
    return rank


class P2POp:
    """A message of batch_isend_irecv(): isend or irecv, the array, and the other rank."""

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Array,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise refusal("Invalid ``op``. Expected ``op`` to be ``isend`` or ``irecv``")
        self.op = op
        self.tensor = tensor
        self.group = default_group() if group is None else group
        self.group_peer = group_rank_of(self.group, peer, group_peer)
        self.peer = self.group._ranks[self.group_peer]
        self.tag = tag

    def __repr__(self) -> str:
        mine, other = self.group.rank(), self.group_peer
        source, target = (mine, other) if self.op is isend else (other, mine)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, "
            f"group_dst={target}, {shape_of(self.tensor)})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Starts all of them; gives a Work for each."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise refusal("Invalid ``p2p_op_list``. Each op is expected to be of type ``P2POp``")
    if len({id(op.group) for op in p2p_op_list}) > 1:
        raise refusal("All ops need to use the same group")
    return [_start(op) for op in p2p_op_list]


def _start(op: P2POp) -> Work:
    call: Any = op.group.send if op.op is isend else op.group.recv
    work: Work = call([op.tensor], op.group_peer, op.tag)
    return work
