"""Communication hooks: functions of the program that reduce a bucket of gradients in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future as PlainFuture
from contextlib import contextmanager
from typing import Any

from unisono import _core
from unisono._arrays import Array
from unisono._errors import DistError
from unisono._future import Future, Value
from unisono._work import Work

HookFunction = Callable[[_core.GradBucket], Any]
"""Takes a bucket; gives a Future of one array in its place, or a Work that reduces it."""


class Hook:
    """A hook as the extension calls it. What it raises is kept, for who marks gradients."""

    def __init__(self, function: HookFunction) -> None:
        if not callable(function):
            raise TypeError("Communication hook must be callable.")
        self._function = function
        self._raised: BaseException | None = None

    def __call__(self, bucket: _core.GradBucket, answer: _core.HookAnswer) -> None:
        try:
            future = self.future_for(bucket)
        except BaseException as error:
            self._keep(error)
            raise
        # The answer is not to keep the future: where that is forgotten, the answer goes with it.
        future._plain.add_done_callback(lambda done: self._settle(done, answer))

    def future_for(self, bucket: _core.GradBucket) -> Future:
        """What the function gives for a bucket, for who calls it by himself."""
        return future_of(self._function(bucket))

    def _settle(self, done: PlainFuture[Any], answer: _core.HookAnswer) -> None:
        try:
            answer.give(_only_array(done.result()))
        except BaseException as error:
            self._keep(error)
            answer.fail(f"{type(error).__name__}: {error}")

    def forget(self) -> None:
        """A new step begins: what was raised in the last one is of no interest."""
        self._raised = None

    def _keep(self, error: BaseException) -> None:
        self._raised = self._raised or error

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raises what the body does, with what the hook raised as its cause.

        What the hook did not raise itself, but met, passes as it is: errors of the group, Ctrl-C.
        """
        try:
            yield
        except DistError as error:
            raised, self._raised = self._raised, None
            if isinstance(raised, DistError) or not isinstance(raised, Exception | None):
                raise raised from None
            if raised is None:
                raise
            raise error from raised


def future_of(given: object) -> Future:
    if isinstance(given, Work):
        return given.get_future()
    if not isinstance(given, Future):
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        raise TypeError(f"callback must return a Future object, but got {kind}")
    return given


def _only_array(value: Value) -> Array:
    """An array, or what the futures of unisono.distributed have: a list of one."""
    if not isinstance(value, list | tuple):
        return value
    if len(value) != 1:
        raise TypeError(f"one array is to take the place of the bucket, not {len(value)}")
    return value[0]
