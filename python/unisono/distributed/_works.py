"""Work: an operation under way, begun by unisono or by a class of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, ClassVar

from unisono import _core
from unisono import _work as base
from unisono._errors import DistTimeoutError
from unisono._future import Future
from unisono._refusal import not_offered, refusal
from unisono.distributed._kinds import WorkResult

NO_TIMEOUT = timedelta(0)
"""As torch writes it: a wait without limit."""

Timeout = timedelta | float | None

_making = threading.Lock()


class Work(base.Work[list[Any]]):
    """An operation under way, of async_op=True. Its result is the list of arrays it writes to.

    A program may derive from it, and say how the operation ends by wait(timeout), by get_future(),
    or by both. Whoever needs to be told of the end then learns it from the future; where there is
    none, a thread of Python's calls wait().
    """

    __slots__ = ("_open",)
    _tells_end: ClassVar[bool] = False  # has a get_future() of its own

    # Of one that is written in Python both are made when they are asked for, which need not be:
    #   _open  how it stands: ended by its own wait(), or by who follows it
    #   _work  the same, from when on somebody follows it
    _open: _core.Work

    def __init__(self, work: _core.Work | None = None, value: list[Any] | None = None) -> None:
        if work is not None:
            self._work = self._open = work
            self._value = [] if value is None else value

    def __init_subclass__(cls, **named: Any) -> None:  # noqa: ANN401 (as type's own)
        super().__init_subclass__(**named)
        if "wait" in vars(cls):
            cls.wait = _noted(cls.wait)  # type: ignore[method-assign]
        if "get_future" in vars(cls):
            cls._tells_end = True

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (of all types)
        """What one that is written in Python does not have before it is asked for."""
        if name == "_value":
            return []
        if name not in ("_open", "_work"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        slot = getattr(Work, name)
        made = _core.OpenWork() if name == "_open" else self._open
        with _making:
            try:
                return slot.__get__(self)  # another thread was faster
            except AttributeError:
                slot.__set__(self, made)
        if name == "_work":
            _follow(self, made)  # type: ignore[arg-type]
        return made

    def _state(self) -> _core.Work:
        """How it stands; nobody waits for it because of the question."""
        return self._work if self._tells_end else self._open

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._state().is_completed()

    def is_completed(self) -> bool:
        """As done()."""
        return self._state().is_completed()

    def is_success(self) -> bool:
        """False once it has failed."""
        return self._state().is_success()

    def wait(self, timeout: Timeout = NO_TIMEOUT) -> bool:
        """Waits until it has ended, and raises what it failed with; timedelta(0) is no limit."""
        if not self._tells_end and type(self).wait is not Work.wait:
            raise not_offered(
                f"Work.wait() cannot know when a {type(self).__name__} ends",
                "wait for it in your own wait(), or define get_future()",
            )
        return self._work.wait(-1 if timeout == NO_TIMEOUT else base.milliseconds(timeout))

    def exception(self, timeout: Timeout = None) -> Exception | None:
        """What it failed with; None while it is under way, or when it ended well."""
        state = self._state()
        if not state.is_completed():
            return None
        try:
            state.wait(-1)
        except Exception as error:
            return error
        return None

    def synchronize(self) -> None:
        """As wait(): there is no stream to be put in order."""
        self.wait()

    def get_future(self) -> Future:
        """What it will have given, for callbacks that follow one another."""
        future = Future()
        self._work.add_done_callback(lambda: future._settle(self._given))
        return future

    def _given(self) -> list[Any]:
        """The result of one that has ended; raises what it failed with."""
        self._work.wait(-1)
        return self._value

    def get_future_result(self) -> Future:
        """A Future of how it has ended, as a number of WorkResult: it never fails itself."""
        future = Future()
        self.add_done_callback(lambda _: future.set_result(int(self._outcome())))
        return future

    def _outcome(self) -> WorkResult:
        error = self.exception()
        if error is None:
            return WorkResult.SUCCESS
        timed_out = isinstance(error, DistTimeoutError)
        return WorkResult.TIMEOUT if timed_out else WorkResult.COMM_ERROR

    def _source_rank(self) -> int:
        return self.source_rank()

    def _get_op_type(self) -> int:
        """The number of its operation, one of OpType; UNKNOWN where nobody knows it any more."""
        return self._state().op_type()

    def _get_duration(self) -> float:
        """How many milliseconds it ran, where that was measured."""
        return self._state().duration()


def _noted(wait: Callable[..., Any]) -> Callable[..., Any]:
    """A wait() of the program's; how it ends is how the work does.

    Where it was to wait for a while only, that this has passed is no end.
    """

    @wraps(wait)
    def noted(self: Work, *given: Any, **named: Any) -> Any:  # noqa: ANN401 (as the method)
        state = None if self._tells_end else self._open
        if not isinstance(state, _core.OpenWork):  # somebody else knows the end
            return wait(self, *given, **named)
        limited = any(limit not in (None, NO_TIMEOUT) for limit in (*given, *named.values()))
        try:
            answer = wait(self, *given, **named)
        except Exception as error:
            if not (limited and isinstance(error, TimeoutError)):
                state.fail(error)
            raise
        if answer is not False:
            state.finish()
        return answer

    return noted


def _follow(work: Work, state: _core.OpenWork) -> None:
    """Lets the end of a work that is written in Python be known."""
    if work._tells_end:
        try:
            work.get_future().add_done_callback(lambda done: _settle(work, state, done))
        except Exception as error:
            state.fail(error)
    elif type(work).wait is not Work.wait:
        threading.Thread(
            target=_wait_for, args=(work, state), name="unisono-wait", daemon=True
        ).start()
    else:
        kind = type(work).__name__
        state.fail(
            not_offered(f"nobody says when a {kind} ends", "define wait() or get_future() in it")
        )


def _settle(work: Work, state: _core.OpenWork, done: Any) -> None:  # noqa: ANN401 (any future)
    """Takes over how a future has ended: one of unisono's, of torch's, or of Python's own."""
    try:
        value = done.value() if hasattr(done, "value") else done.result()
    except Exception as error:
        state.fail(error)
        return
    if isinstance(value, list):
        work._value = value
    state.finish()


def _wait_for(work: Work, state: _core.OpenWork) -> None:
    """On a thread of Python's."""
    try:
        if work.wait() is False:
            raise refusal(f"wait() of a {type(work).__name__} gave False, though it had no limit")
    except Exception as error:
        state.fail(error)  # unless wait() itself has noted it
