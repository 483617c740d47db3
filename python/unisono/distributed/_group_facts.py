"""What c10d's ProcessGroup tells of itself and lets be set, under the names of its bindings."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from unisono import _core
from unisono._refusal import not_offered, refusal
from unisono.distributed._backends import _Backend
from unisono.distributed._kinds import BackendType, OpType, WorkInfo

if TYPE_CHECKING:
    from unisono import Group
    from unisono.distributed._works import Work


def kind_of(device: object) -> str:
    """The kind of a device: "cpu", a torch.device, or what else has a type."""
    return str(getattr(device, "type", device)).partition(":")[0]


class GroupFacts:
    """Of a ProcessGroup."""

    _backends: dict[str, _Backend]  # by device
    _desc: str
    _group: Group
    _name: str
    _own_backend: _Backend | None = None  # of a group that is carried out in C++
    _watches: list[_core.CompletionWatch]

    def name(self) -> str:
        """The name of its backend."""
        raise NotImplementedError

    def _set_group_name(self, name: str) -> None:
        self._name = str(name)

    def _set_group_desc(self, desc: str) -> None:
        self._desc = str(desc)

    def _get_backend_name(self) -> str:
        return self.name()

    def _id(self) -> int:
        """A number that no other group of this process has meanwhile."""
        return id(self)

    @property
    def _device_types(self) -> list[str]:
        """The kinds of devices that it has backends for."""
        return ["cpu"] if self._own_backend is not None else sorted(self._backends)

    def _get_backend(self, device: object) -> _Backend:
        """What does its operations on that kind of device."""
        kind = kind_of(device)
        own = self._own_backend if kind == "cpu" else None
        backend = self._backends.get(kind, own)
        if backend is None:
            raise refusal(f"No backend type associated with device type {kind}")
        return backend

    def _backend_id(self, backend_type: int) -> int:
        """A number that no other backend has meanwhile; of the only one there is."""
        kinds = self._device_types
        if not kinds:
            name = BackendType(backend_type).name.lower()
            raise refusal(f"Could not find backend type {name} for the group {self._name!r}")
        return id(self._get_backend(kinds[0]))

    def _set_default_backend(self, backend_type: int) -> None:
        """Nothing but a check: the memory of the CPU has one backend."""
        BackendType(backend_type)

    def _get_sequence_number_for_group(self) -> int:
        """How many operations there were."""
        return self._get_backend("cpu")._get_sequence_number_for_group()

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: operations are numbered from 1 on every rank."""

    def _start_coalescing(self, device_type: object) -> None:
        """Collects the operations that follow."""
        self._get_backend(device_type)._start_coalescing()

    def _end_coalescing(self, device_type: object) -> Work:
        """Starts them together."""
        return self._get_backend(device_type)._end_coalescing()

    def _enable_collectives_timing(self) -> None:
        """Nothing: operations are timed anyway."""

    def _has_hooks(self) -> bool:
        """Whether somebody is told of operations."""
        return self._own_backend is not None and _core.has_hooks(self._group._handle)

    def _register_on_completion_hook(self, hook: Callable[[WorkInfo], object]) -> None:
        """Calls `hook` with a WorkInfo for each operation from now on, once it has ended."""
        if not callable(hook):
            raise TypeError(f"hook must be callable, which {type(hook).__name__} is not")
        if self._own_backend is None:
            raise not_offered(f"backend {self.name()} does not tell of operations that have ended")
        self._watches.append(_core.CompletionWatch(self._group._handle, _telling(hook)))

    def _wait_for_pending_works(self) -> None:
        """Returns when all operations have ended, and their hooks too."""
        for watch in self._watches:
            watch.wait()


def _telling(hook: Callable[[WorkInfo], object]) -> Callable[[int, int, int, int, float], object]:
    offset = time.time_ns() - time.monotonic_ns()

    def moment(nanoseconds: int) -> datetime:
        return datetime.fromtimestamp((nanoseconds + offset) / 1e9)

    return lambda operation, seq, started, finished, seconds: hook(
        WorkInfo(
            OpType(operation),
            seq,
            moment(started),
            moment(finished),
            timedelta(seconds=seconds),
        )
    )
