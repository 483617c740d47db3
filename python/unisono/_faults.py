"""Faults on demand: a rank that dies, comes late, or calls something else, for tests of users."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unisono._refusal import refusal

if TYPE_CHECKING:
    from unisono import _core
    from unisono._group import Group


class Fault(NamedTuple):
    """What happens to a rank when it begins an operation: its first, or `call` says which."""

    kind: str
    rank: int
    call: int = 1
    seconds: float = 0.0


def kill(rank: int, call: int = 1) -> Fault:
    """The rank dies: a process by SIGKILL, a thread by leaving the world and raising Killed."""
    return Fault("kill", rank, call)


def delay(rank: int, seconds: float, call: int = 1) -> Fault:
    """The rank begins the operation so much later."""
    return Fault("delay", rank, call, seconds)


def mismatch(rank: int, call: int = 1) -> Fault:
    """The rank begins another operation than it was told: all get a MismatchError."""
    return Fault("mismatch", rank, call)


class Killed(Exception):  # noqa: N818 (it is no mistake)
    """Raised in a rank that is a thread, in place of its death."""


class FaultyCore:
    """The core of a group, with faults in front of its operations."""

    def __init__(self, group: Group, faults: Sequence[Fault], is_process: bool) -> None:
        self._group = group
        self._inner = group._core
        self._faults = {fault.call: fault for fault in faults if fault.rank == group.rank}
        self._is_process = is_process
        self._calls = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def submit(self, operation: str, *arguments: object) -> _core.Work:
        if self._is_another():
            return self._submit_another(operation)
        return self._inner.submit(operation, *arguments)  # type: ignore[arg-type]

    def all_reduce(self, array: object, op: object) -> None:
        self._run("all_reduce", array, op)

    def reduce(self, array: object, root: int, op: object) -> None:
        self._run("reduce", array, root, op)

    def broadcast(self, array: object, root: int) -> None:
        self._run("broadcast", array, root)

    def barrier(self) -> None:
        self._run("barrier")

    def _run(self, operation: str, *arguments: object) -> None:
        """One of those that have a short way of their own."""
        if self._is_another():
            self._submit_another(operation)
        else:
            getattr(self._inner, operation)(*arguments)

    def _is_another(self) -> bool:
        """Counts a call, lets its fault happen, and says whether it is to be another."""
        self._calls += 1
        fault = self._faults.get(self._calls)
        if fault is not None and fault.kind == "kill":
            self._die()
        if fault is not None and fault.kind == "delay":
            time.sleep(fault.seconds)
        return fault is not None and fault.kind == "mismatch"

    def _die(self) -> None:
        if self._is_process:
            os.kill(os.getpid(), signal.SIGKILL)
        self._group._leave()
        raise Killed(f"rank {self._group.rank} was killed, as the test has asked for")

    def _submit_another(self, operation: str) -> _core.Work:
        """One that nobody else is in: of a byte, or a barrier."""
        if operation == "barrier":
            byte = (bytearray(1),)
            return self._inner.submit("all_reduce", (), byte, "sum", -1, -1, 0, False, -1, (), ())
        return self._inner.submit("barrier", (), (), "sum", -1, -1, 0, False, -1, (), ())


def with_faults(group: Group, faults: Fault | Sequence[Fault], is_process: bool) -> Group:
    """`group`, whose operations have the faults of its rank in front."""
    several = [faults] if isinstance(faults, Fault) else list(faults)
    for fault in several:
        if not 0 <= fault.rank < group.size or fault.call < 1:
            raise refusal(f"there is no rank {fault.rank}, or no call {fault.call}, for a fault")
    if several:
        group._core = FaultyCore(group, several, is_process)  # type: ignore[assignment]
    return group
