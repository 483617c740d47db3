"""What a Logger notes of a training, under torch's names."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import unisono.distributed as ours
from tests.python.test_reducer import backward, everywhere, reducer_of
from unisono.distributed._state import ProcessGroup

pytest.importorskip("numpy")

CONSTRUCTION: tuple[Any, ...] = ("net", [], -1, True, False, False)


def logged(group: ProcessGroup, steps: int, **options: Any) -> ours.DDPLoggingData:
    """What is known after a training of so many steps."""
    reducer = reducer_of(group, **options)
    logger = ours.Logger(reducer)
    reducer.set_logger(logger)
    logger.set_construction_data_and_log(*CONSTRUCTION)
    train(reducer, logger, steps)
    return logger._get_ddp_logging_data()


def train(reducer: ours.Reducer, logger: ours.Logger, steps: int) -> None:
    for step in range(steps):
        logger.set_runtime_stats_and_log()
        reducer.prepare_for_forward()
        reducer._rebuild_buckets()
        reducer.prepare_for_backward()
        backward(reducer, float(step))
        reducer.finish()


def test_what_is_known_at_first_is_noted_at_once() -> None:
    for rank, data in enumerate(everywhere(lambda group: logged(group, steps=0))):
        assert data.strs_map["module_name"] == "net"
        assert data.strs_map["backend_name"] == "unisono"
        assert data.strs_map["bucket_sizes"] == "16, 12"
        assert data.strs_map["dtypes"] == "float"
        assert data.ints_map["rank"] == rank
        assert data.ints_map["world_size"] == 2
        assert data.ints_map["num_parameter_tensors"] == 2
        assert data.ints_map["total_parameter_size_bytes"] == 28
        assert data.ints_map["broadcast_buffers"] == 1
        assert data.ints_map["iteration"] == 0


def test_steps_are_timed_and_noted_when_the_next_one_begins() -> None:
    for data in everywhere(lambda group: logged(group, steps=4)):
        assert data.ints_map["iteration"] == 3
        assert data.ints_map["has_rebuilt_buckets"] == 1
        assert data.ints_map["num_buckets_reduced"] == 1, "there is room for all in one"
        for part in ("forward_compute", "backward_compute", "backward_comm"):
            assert data.ints_map[f"avg_{part}_time"] > 0, part
        assert data.strs_map["prev_iteration_grad_ready_order_indices"] == "1, 0"


def test_after_ten_steps_one_in_so_many_is_noted() -> None:
    def iterations(group: ProcessGroup) -> int:
        reducer = reducer_of(group)
        logger = ours.Logger(reducer)
        reducer._set_ddp_runtime_logging_sample_rate(2)
        logger.set_construction_data_and_log(*CONSTRUCTION)
        train(reducer, logger, 20)
        return logger._get_ddp_logging_data().ints_map["iteration"]

    assert everywhere(iterations) == [18, 18]


def test_when_each_gradient_came_is_told() -> None:
    def came(group: ProcessGroup) -> list[int]:
        reducer = reducer_of(group)
        assert reducer.get_backward_stats() == [0, 0]
        reducer.prepare_for_backward()
        backward(reducer, 1.0)
        reducer.finish()
        return reducer.get_backward_stats()

    for first, last in everywhere(came):
        assert first >= last > 0, "the last parameter came first"


def test_errors_and_facts_are_noted_by_name() -> None:
    def noted(group: ProcessGroup) -> ours.DDPLoggingData:
        reducer = reducer_of(group)
        logger = ours.Logger(reducer)
        reducer.set_logger(logger)
        logger._set_comm_hook_name("compress")
        logger._set_uneven_input_join()
        logger._set_static_graph()
        reducer.prepare_for_backward()
        with pytest.raises(ours.UsageError, match="weights"):
            reducer._autograd_hook(1)
            reducer._autograd_hook(1)
        return logger._get_ddp_logging_data()

    for data in everywhere(noted):
        assert data.strs_map["comm_hook"] == "compress"
        assert data.ints_map["join_uneven_inputs"] == data.ints_map["static_graph"] == 1
        assert data.ints_map["has_error"] == 1
        assert "weights" in data.strs_map["error"]


def test_a_second_logger_is_refused() -> None:
    def refused(group: ProcessGroup) -> bool:
        reducer = reducer_of(group)
        first = ours.Logger(reducer)
        reducer.set_logger(first)
        with pytest.raises(ours.UsageError, match=r"[Ll]ogger"):
            reducer.set_logger(ours.Logger(reducer))
        return True

    assert everywhere(refused) == [True, True]


def test_a_logger_follows_its_reducer_into_a_static_graph() -> None:
    def followed(group: ProcessGroup) -> ours.DDPLoggingData:
        reducer = reducer_of(group)
        logger = ours.Logger(reducer)
        reducer.set_logger(logger)
        logger.set_construction_data_and_log(*CONSTRUCTION)
        reducer._set_static_graph()
        logger._set_static_graph()
        train(reducer, logger, 3)
        return logger._get_ddp_logging_data()

    for data in everywhere(followed):
        assert data.strs_map["module_name"] == "net"
        assert data.ints_map["static_graph"] == 1
        assert data.ints_map["iteration"] == 2


def test_a_logger_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a Reducer, not str"):
        ours.Logger("reducer")  # type: ignore[arg-type]


def test_after_the_group_a_logger_says_so() -> None:
    def leave(group: ProcessGroup) -> bool:
        logger = ours.Logger(reducer_of(group))
        group._group._leave()
        with pytest.raises(ours.DistError, match="has been left"):
            logger._get_ddp_logging_data()
        return True

    assert everywhere(leave) == [True, True]


def test_torchs_names_of_members_and_fields_are_there() -> None:
    torch = pytest.importorskip("torch")
    c10d = pytest.importorskip("torch._C._distributed_c10d")
    for name, made in (("Logger", ours.Logger), ("DDPLoggingData", ours.DDPLoggingData())):
        theirs = {each for each in dir(getattr(c10d, name)) if not each.startswith("__")}
        assert theirs - {"_pybind11_conduit_v1_"} <= set(dir(made)), name
    told = c10d.Logger.set_construction_data_and_log.__doc__
    for parameter in inspect.signature(ours.Logger.set_construction_data_and_log).parameters:
        assert f"{parameter}:" in told

    store = torch.distributed.HashStore()
    group = c10d.ProcessGroup(store, 0, 1)
    gloo = torch.distributed.ProcessGroupGloo(store, 0, 1)
    cpu = torch.device("cpu")
    group._register_backend(cpu, c10d.ProcessGroup.BackendType.GLOO, gloo)
    group._set_default_backend(c10d.ProcessGroup.BackendType.GLOO)
    params = [torch.zeros(3, requires_grad=True)]
    theirs_of = c10d.Logger(c10d.Reducer(params, [[0]], [1 << 20], group))
    theirs_of.set_construction_data_and_log(*CONSTRUCTION)
    there = theirs_of._get_ddp_logging_data()
    (here,) = everywhere(lambda mine: logged(mine, steps=0), size=1)
    assert {name for name in there.strs_map if not name.startswith("gloo")} <= set(here.strs_map)
    assert {name for name in there.ints_map if not name.startswith("gloo")} <= set(here.ints_map)
