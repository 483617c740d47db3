"""Works written in Python: how they end, and who learns it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import threading
from concurrent.futures import Future as PlainFuture
from datetime import timedelta
from typing import Any

import pytest

import unisono.distributed as ours
from tests.python.conftest import happens
from unisono import _core
from unisono._future import Future


@pytest.fixture(params=["unisono", "torch"])
def c10d(request: pytest.FixtureRequest) -> Any:
    """unisono.distributed, then torch's bindings: what a test says must hold for both."""
    if request.param == "unisono":
        return ours
    pytest.importorskip("torch")
    return importlib.import_module("torch._C._distributed_c10d")


def new_future(c10d: Any) -> Any:
    return Future() if c10d is ours else importlib.import_module("torch.futures").Future()


class Waited(ours.Work):
    """Ends in whoever waits for it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.may_end = threading.Event()  # without super().__init__(), which is no mistake
        self.error = error

    def wait(self, timeout: Any = timedelta(0)) -> bool:
        if not self.may_end.wait(timeout.total_seconds() or 60):
            raise TimeoutError("not yet")
        if self.error is not None:
            raise self.error
        return True


class Told(ours.Work):
    """Ends as its future does."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self.future = future

    def get_future(self) -> Any:
        return self.future


def test_a_wait_ends_the_work() -> None:
    work = Waited()

    assert (work.is_completed(), work.is_success(), work.exception()) == (False, True, None)
    with pytest.raises(TimeoutError, match="not yet"):
        work.wait(timedelta(milliseconds=1))
    assert not work.is_completed()
    work.may_end.set()
    assert work.wait()
    assert (work.is_completed(), work.is_success(), work.exception()) == (True, True, None)


def test_a_wait_that_raises_fails_the_work() -> None:
    error = LookupError("gone")
    work = Waited(error)
    work.may_end.set()

    with pytest.raises(LookupError) as caught:
        work.wait()

    assert caught.value is error
    assert (work.is_completed(), work.is_success()) == (True, False)
    assert work.exception() is error
    assert work.get_future_result().wait() == ours.WorkResult.COMM_ERROR


def test_who_is_told_of_the_end_need_not_wait() -> None:
    work = Waited()
    told: list[Any] = []
    future = work.get_future()
    work.add_done_callback(told.append)

    assert not future.done()
    work.may_end.set()

    assert future.wait() == []
    assert happens(lambda: told == [work])
    assert work.is_completed()


@pytest.mark.parametrize("kind", [Future, PlainFuture])
def test_a_future_ends_the_work(kind: Any) -> None:
    well, badly = Told(kind()), Told(kind())
    error = LookupError("gone")

    assert not well.is_completed()
    well.future.set_result([1])
    badly.future.set_exception(error)

    assert (well.is_completed(), well.wait(), well.result()) == (True, True, [1])
    with pytest.raises(LookupError) as caught:
        badly.wait()
    assert caught.value is error
    assert (badly.is_success(), badly.exception()) == (False, error)


def test_a_wait_for_a_future_ends_in_time() -> None:
    work = Told(Future())

    with pytest.raises(ours.DistTimeoutError):
        work.wait(timedelta(milliseconds=10))

    assert not work.is_completed()


def test_a_work_of_python_can_be_awaited() -> None:
    async def wait() -> Any:
        return await work

    work = Told(Future())
    threading.Timer(0.01, lambda: work.future.set_result([2])).start()

    assert asyncio.run(wait()) == [2]


def test_a_class_that_says_nothing_of_its_end_is_told() -> None:
    class Silent(ours.Work):
        pass

    class Careless(ours.Work):
        def wait(self, timeout: Any = timedelta(0)) -> bool:
            return super().wait(timeout)

    with pytest.raises(ours.NotSupportedError, match=r"define wait\(\) or get_future\(\)"):
        Silent().wait()
    with pytest.raises(ours.NotSupportedError, match="cannot know when a Careless ends"):
        Careless().wait()


def test_the_first_end_counts() -> None:
    work = _core.OpenWork()

    work.finish()
    work.fail(ValueError("too late"))

    assert work.wait(-1)
    with pytest.raises(TypeError, match="error must be an exception, not int"):
        work.fail(3)  # type: ignore[arg-type]


def test_c10d_learns_of_a_work_that_was_forgotten() -> None:
    class Forgetful(ours.ProcessGroup):
        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            return Told(Future())

    np = pytest.importorskip("numpy")
    reducer = ours.Reducer([np.zeros(2, "float32")], [[0]], [1 << 20], Forgetful(0, 1))
    reducer.set_grad(0, np.ones(2, "float32"))
    reducer.prepare_for_backward([])
    reducer._autograd_hook(0)
    gc.collect()

    with pytest.raises(ours.AbortedError, match="was forgotten, and nobody can end it"):
        reducer.finish()


def test_a_callback_work_ends_when_its_function_says_so(c10d: Any) -> None:
    calls: list[timedelta] = []

    def callback(timeout: timedelta) -> bool:
        calls.append(timeout)
        return len(calls) > 1

    work = c10d.PythonCallbackWork(callback)
    future = work.get_future()

    assert not work.is_completed()
    assert not work.wait(timedelta(seconds=1))
    assert not future.done()
    assert work.wait()
    assert (future.done(), future.value(), work.is_completed()) == (True, [], True)
    assert calls == [timedelta(seconds=1), timedelta(0)]


def test_a_callback_work_raises_what_its_function_does(c10d: Any) -> None:
    def callback(timeout: timedelta) -> bool:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        c10d.PythonCallbackWork(callback).wait()


def test_a_fake_work_has_nothing_to_wait_for(c10d: Any) -> None:
    work = c10d.FakeWork()

    assert (work.seq_id, work.wait(), work.is_success(), work.exception()) == (-1, True, True, None)
    assert work.get_future().value() is None
    work.seq_id = 7
    assert work.seq_id == 7


def test_a_work_is_made_of_a_future(c10d: Any) -> None:
    future = new_future(c10d)
    work = c10d._create_work_from_future(future)

    assert isinstance(work, c10d.Work)
    assert not work.is_completed()
    future.set_result([])
    assert (work.is_completed(), work.wait(), work.result()) == (True, True, [])
    assert work.get_future().value() == []


def test_a_work_is_made_of_any_future() -> None:
    plain: PlainFuture[Any] = PlainFuture()
    work = ours._create_work_from_future(plain)
    plain.set_exception(LookupError("gone"))

    with pytest.raises(LookupError, match="gone"):
        work.wait()
    with pytest.raises(TypeError, match="future must be a Future, not int"):
        ours._create_work_from_future(3)
