"""What a thread, or the process, is told once for the calls that follow."""

from __future__ import annotations

import threading
from datetime import timedelta

from unisono import _core
from unisono.distributed._making import default_pg_timeout
from unisono.distributed._process_group import ProcessGroup
from unisono.distributed._works import NO_TIMEOUT

_DEFAULT_PG_TIMEOUT: timedelta = default_pg_timeout
_DEFAULT_NO_TIMEOUT: timedelta = NO_TIMEOUT


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.group: ProcessGroup | None = None
        self.profiling_name = ""
        self.allows_inflight = False


_here = _OfThread()


def _current_process_group() -> ProcessGroup | None:
    """The group that this thread has been told of."""
    return _here.group


def _set_process_group(group: ProcessGroup | None) -> None:
    """Tells this thread of a group, or of none."""
    if group is not None and not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, not {type(group).__name__}")
    _here.group = group


def _set_global_rank(rank: int) -> None:
    """The rank that lines of the log begin with."""
    _core.set_log_rank(rank)


def _allow_inflight_collective_as_graph_input() -> bool:
    """Whether this thread has said that arrays may be taken whose operation is under way."""
    return _here.allows_inflight


def _set_allow_inflight_collective_as_graph_input(value: bool) -> None:
    """Says so, or not."""
    _here.allows_inflight = bool(value)


def _get_comm_profiling_name() -> str:
    """The name that this thread has for what it does."""
    return _here.profiling_name


def _set_comm_profiling_name(name: str) -> None:
    """Gives it one; "" for none."""
    _here.profiling_name = str(name)
