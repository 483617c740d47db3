"""What is known by name or by array: groups, and works that nobody has waited for yet."""

from __future__ import annotations

import threading
import weakref

from unisono._arrays import Array
from unisono._pending import Waitable, pending
from unisono._refusal import refusal
from unisono.distributed._state import ProcessGroup

Names = dict[str, "weakref.ref[ProcessGroup]"]


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.names: Names = {}


_lock = threading.Lock()
_of_process: Names = {}
_of_thread = _OfThread()
_isolated = False


def _names() -> Names:
    return _of_thread.names if _isolated else _of_process


def _register_process_group(group_name: str, group: ProcessGroup) -> None:
    """Lets `_resolve_process_group` find a group, for as long as somebody keeps it."""
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, not {type(group).__name__}")
    with _lock:
        if group_name in _names():
            raise refusal(
                f"A process group is already registered under the name '{group_name}'",
                "unregister that one, or use another name",
            )
        _names()[group_name] = weakref.ref(group)


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of that name."""
    with _lock:
        known = _names().get(group_name)
    if known is None:
        raise refusal(
            f"Could not resolve the process group registered under the name '{group_name}'",
            "register it in this process first; destroying a group takes its name away",
        )
    group = known()
    if group is None:
        raise refusal(
            f"The process group registered under the name '{group_name}' has already been destroyed"
        )
    return group


def _unregister_process_group(group_name: str) -> None:
    """Forgets a name; one that nobody has is no mistake."""
    with _lock:
        _names().pop(group_name, None)


def _unregister_all_process_groups() -> None:
    """Forgets all names."""
    with _lock:
        _names().clear()


def _set_thread_isolation_mode(enable: bool) -> None:
    """Whether each thread has names of its own: for programs whose ranks are threads."""
    global _isolated
    _isolated = bool(enable)


def note(group: ProcessGroup) -> None:
    """Registers a new group under its own name. Of two that have one name, the newer is found."""
    with _lock:
        _names()[group.group_name] = weakref.ref(group)


def forget(group: ProcessGroup) -> None:
    """Takes the name of a group away that is destroyed, unless a newer one has it."""
    with _lock:
        known = _names().get(group.group_name)
        if known is not None and known() in (None, group):
            del _names()[group.group_name]


def _register_work(tensor: Array, work: Waitable) -> None:
    """Lets `unisono.functional.wait_tensor(tensor)` wait for `work`."""
    if not callable(getattr(work, "wait", None)):
        raise TypeError(f"work must have a method wait(), which {type(work).__name__} has not")
    pending.add(tensor, work)


def _get_work_registry_size() -> int:
    """How many works of this thread are still to be waited for by their arrays."""
    return pending.size()
