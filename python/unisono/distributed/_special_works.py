"""Works that are no operation of a group: of a function, of a future, and of nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono import _core
from unisono._future import Future
from unisono.distributed._works import NO_TIMEOUT, Timeout, Work


class PythonCallbackWork(Work):
    """Ends when `callback(timeout)`, which wait() calls, returns something true."""

    def __init__(self, callback: Callable[[Any], object]) -> None:
        if not callable(callback):
            raise TypeError(f"callback must be callable, which {type(callback).__name__} is not")
        super().__init__()
        self._callback = callback

    def wait(self, timeout: Timeout = NO_TIMEOUT) -> bool:
        """Calls the function; whether it has ended with that."""
        return bool(self._callback(timeout))

    def get_future(self) -> Future:
        """Of an empty list, once a wait() has ended it: the function is not called for this."""
        future = Future()
        self._open.add_done_callback(lambda: future._settle(self._told_end))
        return future

    def _told_end(self) -> list[Any]:
        self._open.wait(-1)
        return []


PythonCallbackWork._tells_end = False  # not by itself


class FakeWork(Work):
    """Has ended."""

    seq_id = -1

    def __init__(self) -> None:
        ended = _core.OpenWork()
        ended.finish()
        super().__init__(ended, [])

    def wait(self, timeout: Timeout = NO_TIMEOUT) -> bool:
        """True."""
        return True

    def getFuture(self) -> Future:  # noqa: N802 (torch's name)
        """A new one, which is done."""
        future = Future()
        future.set_result(None)
        return future

    def get_future(self) -> Future:
        """As getFuture()."""
        return self.getFuture()


class _FutureWork(Work):
    def __init__(self, future: Any) -> None:  # noqa: ANN401 (any future)
        super().__init__()
        self._future = future

    def get_future(self) -> Any:  # noqa: ANN401 (the very one)
        return self._future


def _create_work_from_future(future: Any) -> Work:  # noqa: ANN401 (any future)
    """A Work that ends as `future` does: one of unisono's, of torch's, or of Python's own."""
    if not callable(getattr(future, "add_done_callback", None)):
        raise TypeError(f"future must be a Future, not {type(future).__name__}")
    return _FutureWork(future)
