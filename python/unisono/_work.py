"""Work: an operation under way, of `async_op=True`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from unisono import _core
from unisono._refusal import refusal

if TYPE_CHECKING:
    from unisono._future import Future

T = TypeVar("T")


def milliseconds(timeout: timedelta | float | None) -> int:
    """A timeout as the extension takes it: -1 for none."""
    if timeout is None:
        return -1
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not 0 <= seconds < 1e9:
        raise refusal(f"a timeout of {seconds} seconds cannot be waited")
    return int(seconds * 1000)


class Work(Generic[T]):
    """An operation under way. It goes on also when nobody waits, and keeps its arrays meanwhile."""

    __slots__ = ("_value", "_work")

    def __init__(self, work: _core.Work, value: T) -> None:
        self._work = work
        self._value = value

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until it has ended, and raises what it failed with.

        DistTimeoutError when `timeout` passes first: that ends the wait, not the operation.
        """
        return self._work.wait(milliseconds(timeout))

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._work.is_completed()

    def is_completed(self) -> bool:
        """As done()."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        """False once it has failed."""
        return self._work.is_success()

    def result(self, timeout: timedelta | float | None = None) -> T:
        """Waits as wait() does; then what the call without async_op returns."""
        self.wait(timeout)
        return self._value

    def exception(self, timeout: timedelta | float | None = None) -> Exception | None:
        """Waits for its end; then what it failed with, or None."""
        try:
            self.wait(timeout)
        except Exception as error:
            if not self.done():
                raise  # the wait has failed, not the operation
            return error
        return None

    def source_rank(self) -> int:
        """The rank that a received message came from."""
        return self._work.source_rank()

    def add_done_callback(self, callback: Callable[[Work[T]], object]) -> None:
        """Calls `callback` with this once it has ended; at once when it has.

        On the thread that ends it, which may be one of unisono's. What it raises is reported and
        dropped.
        """
        self._work.add_done_callback(lambda: callback(self))

    def get_future(self) -> Future:
        """What it will have given, for callbacks that follow one another."""
        from unisono._future import Future

        return Future.of(self)

    def __await__(self) -> Generator[object, None, T]:
        yield from _ended(self._work).__await__()
        return self.result()


async def _ended(work: _core.Work) -> None:
    """Returns when `work` has ended; meanwhile the loop watches a descriptor."""
    if work.is_completed():
        return
    import asyncio

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = work.end_descriptor()

    def note() -> None:
        if not ended.done():
            ended.set_result(None)

    try:
        loop.add_reader(descriptor, note)
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
