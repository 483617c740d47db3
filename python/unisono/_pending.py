"""Works that are still to be waited for, by the memory they write to."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from unisono._arrays import Array
from unisono._work import Work

Storage = Any
"""What owns the memory of an array: the same for all views of it."""


class Waitable(Protocol):
    """What can be waited for: a Work, or whatever else has its wait()."""

    def wait(self) -> object: ...


def storage_of(array: Array) -> Storage:
    """The array that owns the memory of `array`, which may be a view of it."""
    owner = array
    while (inner := getattr(owner, "base", None)) is not None and _can_be_weak(inner):
        owner = inner
    return owner


def _can_be_weak(thing: object) -> bool:
    return hasattr(type(thing), "__weakref__") or type(thing).__weakrefoffset__ != 0


class _Wait:
    """One work of one thread."""

    __slots__ = ("_core", "_work", "thread")

    def __init__(self, work: Waitable) -> None:
        self._core = work._work if isinstance(work, Work) else None
        self._work: Waitable | None = None if isinstance(work, Work) else work
        self.thread = threading.get_ident()

    def is_for(self, other: _Wait) -> bool:
        same = self._work if self._core is None else self._core
        return same is not None and same in (other._core, other._work)

    def wait(self) -> None:
        if self._core is not None:
            self._core.wait(-1)
        elif self._work is not None:
            self._work.wait()

    def settle(self) -> None:
        """Lets go of a work of ours that has ended well: it keeps its arrays."""
        if self._core is not None and self._core.is_completed() and self._core.is_success():
            self._core = None


class _Entry:
    """All that writes to one storage."""

    __slots__ = ("storage", "waits")

    def __init__(self, storage: Callable[[], Storage]) -> None:
        self.storage = storage
        self.waits: list[_Wait] = []


class Pending:
    """The works of a process that nobody has waited for yet.

    An operation keeps its arrays until it has ended; an array that is let go of after that takes
    its works along. Any thread may wait for what another one has started.
    """

    def __init__(self) -> None:
        # Letting go of an array may run code of its owner, which may come here again.
        self._lock = threading.RLock()
        self._entries: dict[int, _Entry] = {}  # by id() of the storage
        self._dead: deque[tuple[int, Any]] = deque()  # may be told of in the midst of anything

    def add(self, array: Array, work: Waitable) -> None:
        """Notes that `array` can be used once `work` has ended."""
        storage, wait = storage_of(array), _Wait(work)
        with self._lock:
            self._sweep()  # what has the number of `storage` now is `storage`
            entry = self._entries.get(id(storage))
            if entry is None:
                entry = self._entries[id(storage)] = _Entry(self._reference(storage))
            if not any(wait.is_for(known) for known in entry.waits):
                entry.waits.append(wait)

    def wait(self, array: Array) -> None:
        """Waits for all works of `array`, and raises what the first one failed with."""
        storage = storage_of(array)
        failed: Exception | None = None
        while (wait := self._next(storage)) is not None:
            try:
                wait.wait()  # an interrupt leaves it for another time
            except Exception as error:
                failed = failed or error
            self._forget(storage, wait)
        if failed is not None:
            raise failed

    def size(self) -> int:
        """How many pairs of a storage and a work the calling thread has left here."""
        me = threading.get_ident()
        with self._lock:
            self._sweep()
            return sum(
                wait.thread == me for entry in list(self._entries.values()) for wait in entry.waits
            )

    def _reference(self, storage: Storage) -> Callable[[], Storage]:
        if not _can_be_weak(storage):
            return lambda: storage  # kept until it has been waited for
        key = id(storage)
        return weakref.ref(storage, lambda gone: self._dead.append((key, gone)))

    def _sweep(self) -> None:
        for entry in list(self._entries.values()):
            for wait in entry.waits:
                wait.settle()
        while self._dead:
            key, gone = self._dead.popleft()
            known = self._entries.get(key)
            if known is not None and known.storage is gone:
                del self._entries[key]

    def _next(self, storage: Storage) -> _Wait | None:
        with self._lock:
            entry = self._entries.get(id(storage))
            if entry is None or entry.storage() is not storage:  # the number has a new owner
                return None
            return entry.waits[0]

    def _forget(self, storage: Storage, wait: _Wait) -> None:
        with self._lock:
            entry = self._entries.get(id(storage))
            if entry is None or wait not in entry.waits:  # another thread has waited as well
                return
            entry.waits.remove(wait)
            if not entry.waits:
                del self._entries[id(storage)]


pending = Pending()
