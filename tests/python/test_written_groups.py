"""Process groups and backends written in Python, used wherever a group is taken."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

import unisono.distributed as ours
import unisono.functional as funcol
from tests.python.conftest import run_python
from unisono._future import Future

np = pytest.importorskip("numpy")


def recorder(dist: Any, base: str = "ProcessGroup") -> Any:
    """Notes how it is called; every work has ended."""

    class Done(dist._Work):  # type: ignore[misc]
        def wait(self, timeout: timedelta = timedelta(0)) -> bool:
            return True

    def noting(name: str) -> Callable[..., Any]:
        def method(self: Any, *given: Any, **named: Any) -> Any:
            self.calls.append((name, [shown(each) for each in (*given, *named.values())]))
            return Done()

        return method

    class Recorder(getattr(dist, base)):  # type: ignore[misc]
        def __init__(self, rank: int, size: int) -> None:
            super().__init__(rank, size)
            self.calls: list[Any] = []

        def getBackendName(self) -> str:  # noqa: N802 (c10d's name)
            return "recorder"

    for name in METHODS:
        setattr(Recorder, name, noting(name))
    return Recorder


METHODS = """
    allreduce allreduce_coalesced broadcast reduce allgather allgather_coalesced all_gather_single
    gather scatter reduce_scatter reduce_scatter_single alltoall all_to_all_single send recv
    recv_anysource barrier
""".split()


def shown(value: Any) -> Any:
    """An argument, told alike for both libraries."""
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if type(value).__name__.endswith("Options"):
        fields = ("rootRank", "asyncOp", "timeout", "reduceOp")
        told = {field: getattr(value, field) for field in fields if hasattr(value, field)}
        if "reduceOp" in told:
            told["reduceOp"] = int(getattr(told["reduceOp"], "op", told["reduceOp"]))
        return type(value).__name__, told
    return tuple(value.shape) if hasattr(value, "shape") else value


@contextmanager
def world_of(dist: Any, creator: Callable[..., Any], name: str, size: int = 2) -> Iterator[Any]:
    """This process as rank 0 of a world that `creator` makes."""
    dist.Backend.register_backend(name, creator, devices=["cpu"])
    dist.init_process_group(name, store=dist.HashStore(), rank=0, world_size=size)
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


def calls_of_all_functions(dist: Any, array: Callable[[], Any]) -> list[Any]:
    """What the methods of a group get when the functions of the module are called."""
    kind = recorder(dist)
    x = array
    with world_of(dist, lambda store, rank, size, timeout: kind(rank, size), "recorder") as world:
        assert isinstance(world, kind)
        assert world.name() == "recorder"
        dist.all_reduce(x(), dist.ReduceOp.MAX)
        dist.all_reduce_coalesced([x(), x()])
        dist.broadcast(x(), 1)
        dist.reduce(x(), 1, dist.ReduceOp.PRODUCT)
        dist.all_gather([x(), x()], x())
        dist.all_gather_coalesced([[x()], [x()]], [x()])
        dist.all_gather_single(x(), x())
        dist.gather(x(), [x(), x()], 0)
        dist.gather(x(), None, 1)
        dist.scatter(x(), [x(), x()], 0)
        dist.scatter(x(), None, 1)
        dist.reduce_scatter(x(), [x(), x()])
        dist.reduce_scatter_single(x(), x())
        dist.all_to_all([x(), x()], [x(), x()])
        dist.all_to_all_single(x(), x(), [1, 2], [2, 1])
        dist.all_to_all_single(x(), x())
        dist.isend(x(), 1, tag=3).wait()
        dist.irecv(x(), 1, tag=3).wait()
        dist.send(x(), 1)
        assert dist.recv(x(), 1) == 1
        dist.irecv(x()).wait()
        dist.barrier()
        assert isinstance(dist.all_reduce(x(), async_op=True), dist._Work)
        calls: list[Any] = world.calls
        return calls


def test_methods_are_called_as_torch_calls_them() -> None:
    torch = pytest.importorskip("torch")
    theirs = importlib.import_module("torch.distributed")

    expected = calls_of_all_functions(theirs, lambda: torch.zeros(4))
    calls = calls_of_all_functions(ours, lambda: np.zeros(4, "float32"))

    assert calls == expected
    assert {name for name, _ in calls} == set(METHODS)


class Meeting:
    """Where ranks that are threads leave arrays for one another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left: dict[Any, dict[int, Any]] = {}
        self.changed = threading.Condition()

    def exchange(self, key: Any, rank: int, value: Any) -> list[Any]:
        with self.changed:
            here = self.left.setdefault(key, {})
            here[rank] = value
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(here) == self.size, 60)
            return [here[each] for each in range(self.size)]


class Later(ours._Work):
    """Ends when a thread of its own does, as its future tells."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__()
        self.future = Future()
        threading.Thread(target=self.future._settle, args=(run,), daemon=True).start()

    def get_future(self) -> Future:
        return self.future


class Waited(ours._Work):
    """Ends in whoever waits for it: it has nothing but wait()."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__()
        self.run: Callable[[], object] | None = run
        self.lock = threading.Lock()

    def wait(self, timeout: Any = timedelta(0)) -> bool:
        with self.lock:
            run, self.run = self.run, None
            if run is not None:
                run()
        return True


class Threads(ours.ProcessGroup):
    """A group of threads."""

    def __init__(self, meeting: Meeting, rank: int, work: Callable[..., Any] = Later) -> None:
        super().__init__(rank, meeting.size)
        self.meeting = meeting
        self.work = work
        self.number = 0

    def _exchanged(self, value: Any, use: Callable[[list[Any]], Any]) -> Any:
        self.number += 1
        number = self.number

        def run() -> list[Any]:
            use(self.meeting.exchange(number, self.rank(), value))
            return []

        return self.work(run)

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        ways = {ours.ReduceOp.SUM: np.sum, ours.ReduceOp.AVG: np.mean, ours.ReduceOp.MAX: np.max}

        def use(all_of_them: list[Any]) -> None:
            for place, tensor in enumerate(tensors):
                given = [each[place] for each in all_of_them]
                tensor[...] = ways[opts.reduceOp](given, axis=0)

        return self._exchanged([tensor.copy() for tensor in tensors], use)

    def broadcast(self, tensors: list[Any], opts: Any) -> Any:
        def use(all_of_them: list[Any]) -> None:
            tensors[0][...] = all_of_them[opts.rootRank]

        return self._exchanged(tensors[0].copy(), use)

    def allgather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any) -> Any:
        def use(all_of_them: list[Any]) -> None:
            for output, given in zip(outputs[0], all_of_them, strict=True):
                output[...] = given

        return self._exchanged(inputs[0].copy(), use)

    def _allgather_base(self, output: Any, given: Any, opts: Any) -> Any:
        def use(all_of_them: list[Any]) -> None:
            output[...] = np.concatenate(all_of_them)

        return self._exchanged(given.copy(), use)


def everywhere(
    function: Callable[[Threads], Any], work: Callable[..., Any] = Later, size: int = 2
) -> list[Any]:
    meeting = Meeting(size)
    with ThreadPoolExecutor(size) as threads:
        groups = [Threads(meeting, rank, work) for rank in range(size)]
        return [call.result(60) for call in [threads.submit(function, group) for group in groups]]


WORKS = pytest.mark.parametrize("work", [Later, Waited])


@WORKS
def test_functions_use_a_group_that_is_written_in_python(work: Any) -> None:
    def run(group: Threads) -> Any:
        values = np.full(3, group.rank() + 1.0)
        ours.all_reduce(values, group=group)
        objects: list[Any] = [None, None]
        ours.all_gather_object(objects, {"rank": group.rank()}, group=group)
        joined = np.zeros(2)
        ours.all_gather_single(joined, np.array([float(group.rank())]), group=group)
        return values.tolist(), objects, joined.tolist()

    expected = ([3.0] * 3, [{"rank": 0}, {"rank": 1}], [0.0, 1.0])
    assert everywhere(run, work) == [expected] * 2


@WORKS
def test_functional_collectives_use_it(work: Any) -> None:
    def run(group: Threads) -> Any:
        total = funcol.all_reduce(np.full(2, 1.0 + group.rank()), "sum", group)
        return funcol.wait_tensor(total).tolist()

    assert everywhere(run, work) == [[3.0, 3.0]] * 2


@WORKS
def test_a_reducer_averages_by_it(work: Any) -> None:
    def run(group: Threads) -> Any:
        params = [np.full(3, group.rank(), "float32"), np.zeros((2, 2), "float32")]
        ours._verify_params_across_processes(group, params)
        ours._broadcast_coalesced(group, params, 1 << 20)
        reducer = ours.Reducer(params, [[1], [0]], [1 << 20] * 2, group)
        for step in range(3):
            reducer.prepare_for_backward([])
            for index in (1, 0):
                reducer.set_grad(index, np.full_like(params[index], group.rank() + step))
                reducer._autograd_hook(index)
            reducer.finish()
        grads = [np.asarray(reducer.grad(index)).tolist() for index in (0, 1)]
        return params[0].tolist(), *grads

    assert everywhere(run, work) == [([0.0] * 3, [2.5] * 3, [[2.5] * 2] * 2)] * 2


class Failing(ours.ProcessGroup):
    """Whose allreduce raises: at once, or later."""

    def __init__(self, error: BaseException, work: Any) -> None:
        super().__init__(0, 1)
        self.error = error
        self.work = work

    def getBackendName(self) -> str:  # noqa: N802 (c10d's name)
        return "failing"

    def _raise(self) -> None:
        raise self.error

    def allreduce(self, tensors: list[Any], opts: Any) -> Any:
        if self.work is None:
            raise self.error
        return self.work(self._raise)


@pytest.mark.parametrize("work", [None, Later, Waited])
def test_what_python_raises_arrives_as_itself(work: Any) -> None:
    error = LookupError("nobody is there")
    group = Failing(error, work)

    with pytest.raises(LookupError) as caught:
        ours.all_reduce(np.zeros(1), group=group)
    assert caught.value is error
    with pytest.raises(LookupError) as caught:
        funcol.wait_tensor(funcol.all_reduce(np.zeros(1), "sum", group))
    assert caught.value is error


@pytest.mark.parametrize("work", [None, Later, Waited])
def test_what_python_raises_comes_through_a_reducer(work: Any) -> None:
    error = LookupError("nobody is there")
    params = [np.zeros(2, "float32")]
    reducer = ours.Reducer(params, [[0]], [1 << 20], Failing(error, work))
    reducer.set_grad(0, np.ones(2, "float32"))
    reducer.prepare_for_backward([])

    with pytest.raises(LookupError) as caught:
        reducer._autograd_hook(0)
        reducer.finish()

    assert caught.value is error


def test_what_a_group_does_not_define_is_refused() -> None:
    group = Failing(LookupError(), None)

    with pytest.raises(ours.UsageError, match=r"No backend type .* define the operation in F"):
        ours.broadcast(np.zeros(1), 0, group=group)
    with pytest.raises(ours.UsageError, match="No backend type"):
        group.broadcast([np.zeros(1)])
    with pytest.raises(ours.NotSupportedError, match="failing does not support monitored_barrier"):
        ours.monitored_barrier(group)


def test_a_method_may_call_that_of_its_base() -> None:
    class Careful(ours.ProcessGroup):
        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            return super().allreduce(tensors, opts)

    class Doubling(ours._Backend):
        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            tensors[0] *= 2

    group = Careful(0, 1)
    with pytest.raises(ours.UsageError, match="No backend type"):
        ours.all_reduce(np.ones(1), group=group)

    group._register_backend("cpu", ours.ProcessGroup.BackendType.CUSTOM, Doubling(0, 1))
    values = np.ones(1)
    ours.all_reduce(values, group=group)

    assert values[0] == 2


def test_a_registered_backend_carries_out_the_operations_of_its_group() -> None:
    kind = recorder(ours, "_Backend")
    del kind.broadcast
    made: list[Any] = []

    def create(options: Any, pg_options: Any) -> Any:
        made.append((options.group_rank, options.group_size, options.global_ranks_in_group))
        made.append(pg_options)
        options.store.set("key", "value")
        return kind(options.group_rank, options.group_size)

    ours.Backend.register_backend("mine", create, extended_api=True, devices="cpu")
    ours.init_process_group(
        "MINE", store=ours.HashStore(), rank=0, world_size=2, pg_options="options"
    )
    try:
        world: Any = ours.group.WORLD
        ours.all_reduce(np.zeros(3))

        assert made == [(0, 2, [0, 1]), "options"]
        assert (ours.get_backend(), ours.get_backend_config()) == ("mine", "cpu:mine")
        assert (world.rank(), world.size(), world.name()) == (0, 2, "recorder")
        assert [name for name, _ in world._backends["cpu"].calls] == ["allreduce"]
        with pytest.raises(ours.NotSupportedError, match="recorder does not support broadcast"):
            ours.broadcast(np.zeros(3), 0)
    finally:
        ours.destroy_process_group()


def test_groups_are_made_out_of_one_that_is_written_in_python() -> None:
    kind = recorder(ours)
    with world_of(ours, lambda store, rank, size, timeout: kind(rank, size), "maker", 3) as world:
        assert ours.new_group([1, 2]) == ours.GroupMember.NON_GROUP_MEMBER
        first = ours.new_group([0, 2], group_desc="ends")
        second: Any = ours.split_group(split_ranks=[[0, 1], [2]])

        assert isinstance(first, kind)
        assert (first.size(), first.group_desc) == (2, "ends")
        assert ours.get_process_group_ranks(first) == [0, 2]
        assert ours.get_process_group_ranks(second) == [0, 1]
        ours.broadcast(np.zeros(1), 2, group=first)
        assert first.calls[0][1][1][1]["rootRank"] == 1
        assert len({first.group_name, second.group_name, world.group_name}) == 3
        alone = ours.new_group([0], backend="unisono")
        values = np.ones(2)
        ours.all_reduce(values, group=alone)
        assert values.tolist() == [1, 1]


def test_a_world_of_unisono_has_groups_that_are_written_in_python() -> None:
    kind = recorder(ours)
    ours.Backend.register_backend(
        "subgroup", lambda store, rank, size, timeout: kind(rank, size), devices=["cpu"]
    )
    ours.init_process_group("unisono", store=ours.HashStore(), rank=0, world_size=1)
    try:
        group = ours.new_group(backend="subgroup", timeout=timedelta(seconds=5))
        ours.barrier(group)

        assert [name for name, _ in group.calls] == ["barrier"]
        assert ours.get_backend(group) == "subgroup"
        assert ours.is_backend_available("subgroup")
    finally:
        ours.destroy_process_group()


def test_a_backend_is_registered_with_c10ds_rules() -> None:
    with pytest.raises(ours.UsageError, match="'gloo' comes with unisono"):
        ours.Backend.register_backend("gloo", print)
    with pytest.warns(UserWarning, match="Device capability of nowhere unspecified"):
        ours.Backend.register_backend("nowhere", print)
    ours.Backend.register_backend("elsewhere", print, devices=["cuda"])

    assert vars(ours.Backend)["NOWHERE"] == "nowhere"
    assert not ours.is_backend_available("elsewhere")
    with pytest.raises(ours.UsageError, match="'elsewhere' does not work in the memory of the CPU"):
        ours.init_process_group("elsewhere", store=ours.HashStore(), rank=0, world_size=1)
    with pytest.raises(TypeError, match="must give a ProcessGroup or a _Backend, not NoneType"):
        ours.init_process_group("nowhere", store=ours.HashStore(), rank=0, world_size=1)
    assert not ours.is_initialized()


def test_a_class_that_forgets_its_base_is_told() -> None:
    class Forgetful(ours.ProcessGroup):
        def __init__(self) -> None:
            pass

    ours.Backend.register_backend("forgetful", lambda *_: Forgetful(), devices=["cpu"])
    with pytest.raises(TypeError, match=r"Forgetful.__init__\(\) must call super\(\).__init__"):
        ours.init_process_group("forgetful", store=ours.HashStore(), rank=0, world_size=1)


def test_a_group_and_what_works_for_it_are_collected() -> None:
    group = Failing(LookupError(), None)
    reducer = ours.Reducer([np.zeros(2, "float32")], [[0]], [1 << 20], group)
    gone: list[Any] = [weakref.ref(group), weakref.ref(reducer)]

    del group, reducer
    gc.collect()

    assert [each() for each in gone] == [None, None]


PROGRAM = """
import threading, time
from datetime import timedelta
import numpy as np
import unisono.distributed as dist

class Never(dist._Work):
    def wait(self, timeout=timedelta(0)):
        threading.Event().wait()

class Group(dist.ProcessGroup):
    def allreduce(self, tensors, opts):
        return Never()

dist.Backend.register_backend("mine", lambda s, r, n, t: Group(r, n), devices=["cpu"])
dist.init_process_group("mine", store=dist.HashStore(), rank=0, world_size=1)
"""

ENDS = {
    "with operations that never end": """
works = [dist.all_reduce(np.zeros(1), async_op=True) for _ in range(3)]
future = works[0].get_future()
works[1].add_done_callback(print)
""",
    "with a Reducer that waits for one": """
reducer = dist.Reducer([np.zeros(2, "float32")], [[0]], [1 << 20], dist.group.WORLD)
reducer.set_grad(0, np.ones(2, "float32"))
reducer.prepare_for_backward([])
reducer._autograd_hook(0)
threading.Thread(target=reducer.finish, daemon=True).start()
""",
    "while daemon threads begin operations": """
def work():
    while True:
        dist.all_reduce(np.zeros(1), async_op=True).add_done_callback(print)
        time.sleep(0.0005)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_in_order(end: str) -> None:
    ended = run_python(PROGRAM + ENDS[end] + "print('last')")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "last\n", ""), ended
