"""Future: what an operation will have given, with the methods of torch.futures.Future."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future as PlainFuture
from typing import TYPE_CHECKING, Any

Value = Any

if TYPE_CHECKING:
    from unisono._work import Work


class Future:
    """A value that is there later. Callbacks run on the thread that ends the operation."""

    def __init__(self) -> None:
        self._plain: PlainFuture[Any] = PlainFuture()

    @classmethod
    def of(cls, work: Work[Any]) -> Future:
        """That of the result of `work`."""
        future = cls()
        work.add_done_callback(lambda ended: future._settle(ended.result))
        return future

    def done(self) -> bool:
        """Whether the value, or an error, is there."""
        return self._plain.done()

    def wait(self) -> Value:
        """Waits for the value, and gives it; raises what went wrong instead."""
        return self._plain.result()

    def value(self) -> Value:
        """The value, which must be there."""
        if not self.done():
            raise RuntimeError("the value of a future is asked for before it is there")
        return self._plain.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what `callback` gives, which is called with this one when it is done."""
        after = Future()
        self.add_done_callback(lambda done: after._settle(lambda: callback(done)))
        return after

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls `callback` with this when it is done; at once when it is."""
        self._plain.add_done_callback(lambda _: callback(self))

    def set_result(self, result: Value) -> None:
        """Gives it its value."""
        self._plain.set_result(result)

    def set_exception(self, error: BaseException) -> None:
        """Lets whoever waits for the value raise `error`."""
        self._plain.set_exception(error)

    def _settle(self, make: Callable[[], Any]) -> None:
        try:
            self._plain.set_result(make())
        except BaseException as error:
            self._plain.set_exception(error)
