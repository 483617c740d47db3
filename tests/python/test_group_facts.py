"""What c10d's bindings tell of groups and works, and what threads are told once."""

from __future__ import annotations

import copy
import importlib
import pickle
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

import unisono.distributed as ours
from unisono.distributed._state import ProcessGroup
from unisono.testing import local_world

np = pytest.importorskip("numpy")


@pytest.fixture(params=["unisono", "torch"])
def c10d(request: pytest.FixtureRequest) -> Any:
    """unisono.distributed, then torch's bindings: what a test says must hold for both."""
    if request.param == "unisono":
        return ours
    pytest.importorskip("torch")
    return importlib.import_module("torch._C._distributed_c10d")


def numbers(kind: Any) -> dict[str, int]:
    return {name: int(member) for name, member in kind.__members__.items()}


@pytest.mark.parametrize("name", ["OpType", "ErrorType", "WorkResult", "BackendType"])
def test_enumerations_have_torchs_numbers(name: str) -> None:
    pytest.importorskip("torch")
    theirs = importlib.import_module("torch._C._distributed_c10d")
    homes = [each.ProcessGroup if name == "BackendType" else each for each in (ours, theirs)]
    here, there = (numbers(getattr(home, name)) for home in homes)

    here.pop("ALLGATHER_INTO_TENSOR_COALESCED", None)  # which torch has, but does not show
    assert here == there


def test_timeouts_are_torchs(c10d: Any) -> None:
    assert timedelta(minutes=30) == c10d._DEFAULT_PG_TIMEOUT
    assert timedelta(0) == c10d._DEFAULT_NO_TIMEOUT


def test_a_reduction_tells_what_it_is(c10d: Any) -> None:
    plain = c10d.ReduceOp(c10d.ReduceOp.MAX)
    scaled = c10d._make_nccl_premul_sum(2.5)

    assert plain.op == c10d.ReduceOp.MAX
    assert plain == c10d.ReduceOp.MAX
    assert (scaled.op, scaled.factor) == (c10d.ReduceOp.PREMUL_SUM, 2.5)
    with pytest.raises(RuntimeError, match="Only PREMUL_SUM supports accessing factor"):
        plain.factor  # noqa: B018 (it raises)
    assert pickle.loads(pickle.dumps(scaled)).factor == 2.5
    assert copy.deepcopy(plain) == c10d.ReduceOp.MAX


def in_another_thread(question: Any) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(question()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_thread_is_told_of_a_group(c10d: Any) -> None:
    group = c10d.ProcessGroup(0, 1)

    assert c10d._current_process_group() is None
    c10d._set_process_group(group)
    try:
        assert c10d._current_process_group() is group
        assert in_another_thread(c10d._current_process_group) is None
    finally:
        c10d._set_process_group(None)
    assert c10d._current_process_group() is None


def test_a_thread_has_settings_of_its_own(c10d: Any) -> None:
    assert c10d._get_comm_profiling_name() == ""
    assert not c10d._allow_inflight_collective_as_graph_input()
    c10d._set_comm_profiling_name("step")
    c10d._set_allow_inflight_collective_as_graph_input(True)
    try:
        assert c10d._get_comm_profiling_name() == "step"
        assert c10d._allow_inflight_collective_as_graph_input()
        assert in_another_thread(c10d._get_comm_profiling_name) == ""
        assert not in_another_thread(c10d._allow_inflight_collective_as_graph_input)
    finally:
        c10d._set_comm_profiling_name("")
        c10d._set_allow_inflight_collective_as_graph_input(False)


def test_a_bare_group_tells_what_torchs_does(c10d: Any) -> None:
    group = c10d.ProcessGroup(0, 2)

    assert (group.rank(), group.size(), group.name()) == (0, 2, "undefined")
    assert (group._get_backend_name(), group._device_types) == ("undefined", [])
    assert not group._has_hooks()
    assert isinstance(group._id(), int)
    group._set_group_desc("mine")
    assert group.group_desc == "mine"
    with pytest.raises((RuntimeError, ours.UsageError), match="No backend type associated"):
        group._start_coalescing(device_of(c10d))


def device_of(c10d: Any) -> Any:
    return "cpu" if c10d is ours else importlib.import_module("torch").device("cpu")


def test_the_options_of_a_creator_can_be_set(c10d: Any) -> None:
    options = c10d._DistributedBackendOptions()
    options.group_rank, options.group_size = 1, 2
    options.group_id, options.global_ranks_in_group = "id", [3, 4]
    options.timeout = timedelta(seconds=5)

    assert (options.group_rank, options.group_size, options.group_id) == (1, 2, "id")
    assert (options.global_ranks_in_group, options.timeout) == ([3, 4], timedelta(seconds=5))


def everywhere(function: Any) -> list[Any]:
    store = ours.HashStore()
    with local_world(2) as worlds:
        return worlds.run(
            lambda world: function(ProcessGroup(world, ours.Backend("gloo"), [0, 1], store))
        )


def test_hooks_are_told_of_operations_that_have_ended() -> None:
    def run(group: Any) -> None:
        told: list[Any] = []
        before = datetime.now()
        group._register_on_completion_hook(told.append)
        assert group._has_hooks()
        works = [group.allreduce([np.ones(4)]), group.barrier()]
        group._wait_for_pending_works()

        assert all(work.is_completed() for work in works)
        told.sort(key=lambda info: info.seq)  # they are told on several threads
        assert [info.op_type for info in told] == [ours.OpType.ALLREDUCE, ours.OpType.BARRIER]
        assert [info.seq for info in told] == [1, 2]
        late = timedelta(seconds=5)  # clocks of the machine may be set meanwhile
        assert before - late < told[0].time_started <= told[0].time_finished
        assert told[0].active_duration >= timedelta(0)
        assert group._get_sequence_number_for_group() == 2

    everywhere(run)


def test_operations_are_collected_and_started_together() -> None:
    def run(group: Any) -> Any:
        other = 1 - group.rank()
        received = np.zeros(2)
        group._start_coalescing("cpu")
        group.send([np.full(2, float(group.rank()))], other, 0)
        group.recv([received], other, 0)
        group._end_coalescing("cpu").wait()
        with pytest.raises(ours.UsageError, match="no coalescing scope"):
            group._end_coalescing("cpu")
        return received.tolist()

    assert everywhere(run) == [[1, 1], [0, 0]]


def test_a_group_is_split_by_its_method() -> None:
    def run(group: Any) -> Any:
        part = group.split_group([1], group_name="part", group_desc="the last")
        if part is None:
            return None
        return part.size(), part.group_name, part.group_desc, part._ranks

    assert everywhere(run) == [None, (1, "part", "the last", [1])]


def test_a_work_tells_its_operation() -> None:
    def run(group: Any) -> int:
        work = group.allreduce([np.ones(100_000)])
        work.wait()
        return int(work._get_op_type())

    assert set(everywhere(run)) <= {ours.OpType.ALLREDUCE, ours.OpType.UNKNOWN}
    assert ours.FakeWork()._get_op_type() == ours.OpType.UNKNOWN
    with pytest.raises(ours.NotSupportedError):
        ours.FakeWork()._get_duration()


def test_a_backend_of_a_group_can_be_had() -> None:
    def run(group: Any) -> None:
        backend = group._get_backend("cpu")
        values = np.ones(1)
        backend.allreduce([values]).wait()
        assert (values[0], backend.name(), group._device_types) == (2, "gloo", ["cpu"])
        assert backend is group._get_backend("cpu")
        assert group._backend_id(group.GLOO) == id(backend)
        with pytest.raises(ours.UsageError, match="device type cuda"):
            group._get_backend("cuda")

    everywhere(run)
