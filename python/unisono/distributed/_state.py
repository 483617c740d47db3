"""The groups of this process: that of init_process_group(), and those made out of it."""

from __future__ import annotations

import warnings
from datetime import timedelta

from unisono._refusal import refusal
from unisono.distributed._process_group import ProcessGroup as ProcessGroup

NON_GROUP_MEMBER = -100  # torch's number: what a rank gets for a group that it is not in


class World:
    """What this process has; one object."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []  # all that are not destroyed, as they were made
        self.made = 0  # groups since init_process_group()


world = World()


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 (torch's name)
        """The default group; None before init_process_group()."""
        return world.default


class group(metaclass=_WorldMeta):  # noqa: N801 (torch's name)
    """group.WORLD is the default group."""


class GroupMember(metaclass=_WorldMeta):
    """GroupMember.WORLD is the default group; NON_GROUP_MEMBER stands for one this is not in."""

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def default_group() -> ProcessGroup:
    """That of init_process_group()."""
    if world.default is None:
        raise refusal(
            "Default process group has not been initialized", "call init_process_group() first"
        )
    return world.default


def is_outside(given: object) -> bool:
    """Whether it stands for a group that this rank is not in."""
    return given == NON_GROUP_MEMBER


def member_group(given: object, call: str) -> ProcessGroup | None:
    """The group of a call, None meaning the default one; None, and a warning, outside it."""
    if given is None:
        return default_group()
    if isinstance(given, ProcessGroup):
        return given
    if is_outside(given):
        rank = -1 if world.default is None else world.default.rank()
        warnings.warn(
            f"Running {call} on global rank {rank} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    raise TypeError(f"group must be a ProcessGroup, not {type(given).__name__}")


def registered(given: object) -> ProcessGroup:
    """A group that has not been destroyed."""
    if not isinstance(given, ProcessGroup) or given not in world.groups:
        raise refusal(f"Group {given} is not registered, please create it with new_group")
    return given


def group_rank_of(given: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """A rank in `given`, of which exactly one way to say it is given."""
    if group_rank is not None:
        if global_rank is not None:
            raise refusal("Can't specify both group_rank and global_rank")
        return group_rank
    if global_rank is None:
        raise refusal("Must specify global_rank or group_rank")
    if global_rank not in given._places:
        raise refusal(f"Global rank {global_rank} is not part of group {given}")
    return given._places[global_rank]


def check_timeout(timeout: object) -> None:
    """Raises for what is no timedelta: plain numbers are not taken here, as in torch."""
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
