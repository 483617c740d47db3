"""DataParallel: gradients of all ranks become their average."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import unisono
from tests.python.conftest import PATIENCE, happens, run_python
from unisono.testing import local_world, run

np = pytest.importorskip("numpy")

SHAPES = {"first": (3, 4), "second": (1000,), "third": ()}


def parameters(dtype: Any = "float32") -> dict[str, Any]:
    return {name: np.zeros(shape, dtype) for name, shape in SHAPES.items()}


def gradient(name: str, rank: int, step: int = 0) -> Any:
    """Another one for each, in small whole numbers, whose averages over 2 or 4 are exact."""
    first = 8 * len(name) + 4 * rank + 16 * step
    return np.arange(first, first + np.prod(SHAPES[name], dtype=int)).reshape(SHAPES[name])


def average(name: str, ranks: int, step: int = 0) -> Any:
    return sum(gradient(name, rank, step) for rank in range(ranks)) / ranks


def take_step(model: unisono.DataParallel, rank: int, step: int = 0) -> None:
    with model.step():
        for name in ("third", "second", "first"):
            model.ready(name, gradient(name, rank, step))


def check(model: unisono.DataParallel, ranks: int, step: int = 0) -> None:
    for name in SHAPES:
        assert (model.grad(name) == average(name, ranks, step)).all(), name


def everywhere(function: Callable[[unisono.Group], Any], size: int = 2) -> list[Any]:
    with local_world(size) as worlds:
        return worlds.run(function)


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_gradients_become_averages_also_after_buckets_were_rebuilt(dtype: str, views: bool) -> None:
    def train(world: unisono.Group) -> None:
        model = unisono.DataParallel(
            parameters(dtype), world, gradient_as_bucket_view=views, first_bucket_bytes_cap=16
        )
        assert len(model) == 3
        assert model.buckets() == [[0, 1, 2]]
        for step in range(3):
            take_step(model, world.rank, step)
            check(model, 2, step)
        assert model.buckets() == [[2, 1], [0]]
        assert model.grad("first").dtype == dtype

    everywhere(train)


def test_ranks_that_are_processes_train_together() -> None:
    assert run(trained_by_a_process, 3, timeout=PATIENCE) == [[21.0, 21.0]] * 3


def trained_by_a_process(world: unisono.Group) -> list[float]:
    weights = np.full(2, float(world.rank))
    model = unisono.DataParallel([weights], world)
    for step in range(3):
        with model.step():
            model.ready(0, np.full(2, (world.rank + 1.0) * 3 + step))
        weights += model.grad(0)
    found: list[float] = weights.tolist()
    return found


def test_all_ranks_begin_with_the_parameters_of_rank_0() -> None:
    def train(world: unisono.Group) -> Any:
        params = [np.full((2, 3), world.rank + 5.0)[:, ::2], np.full(4, world.rank, "float32")]
        unisono.DataParallel(params, world)
        kept = [np.full(2, float(world.rank))]
        unisono.DataParallel(kept, world, broadcast_parameters=False)
        return [array.tolist() for array in (*params, *kept)]

    first, second = everywhere(train)
    assert first == [[[5, 5], [5, 5]], [0] * 4, [0, 0]]
    assert second == [*first[:2], [1, 1]]


def test_gradients_may_be_written_in_their_place() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros((2, 2)), np.zeros(1)], world)
        assert not model.grad(0).any()
        model.begin()
        model.grad(1)[0] = world.rank
        model.ready(1)
        model.grad(0)[...] = 2 * world.rank
        model.ready(0)
        model.finish()
        seen = [model.grad(0).tolist(), model.grad(1).tolist()]
        model.zero_grad()
        assert not model.grad(0).any()
        return seen

    assert everywhere(train) == [[[[1, 1], [1, 1]], [0.5]]] * 2


def test_a_gradient_lies_in_memory_as_its_parameter_does() -> None:
    def train(world: unisono.Group) -> None:
        model = unisono.DataParallel([np.zeros((3, 2)).T], world)
        with model.step():
            model.ready(0, np.arange(6.0).reshape(2, 3) + world.rank)
        assert model.grad(0).flags.f_contiguous
        assert model.grad(0).tolist() == [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]

    everywhere(train)


def test_several_batches_add_up_before_they_are_reduced() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros(2)], world)
        seen = []
        for _ in range(2):
            with model.no_sync():
                for batch in (1.0, 2.0):
                    with model.step():
                        model.ready(0, np.full(2, batch * (world.rank + 1)))
            seen.append(model.grad(0).tolist())
            with model.step():
                model.ready(0, np.full(2, 10.0))
            seen.append(model.grad(0).tolist())
        return seen

    first, second = everywhere(train)
    assert first == [[3, 3], [14.5, 14.5]] * 2
    assert second == [[6, 6], [14.5, 14.5]] * 2


def test_parameters_may_be_unused() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel(
            {"one": np.zeros(1), "some": np.zeros(1), "none": np.zeros(1)},
            world,
            find_unused_parameters=True,
        )
        model.grad("none")[0] = 7 + world.rank
        with model.step():
            model.ready("one", [2.0])
            if world.rank == 0:
                model.ready("some", [4.0])
        return [model.grad(name).item() for name in ("one", "some", "none")]

    assert everywhere(train) == [[2, 2, 7], [2, 2, 8]]


def test_a_parameter_of_a_static_graph_may_be_marked_several_times() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros(1), np.zeros(1)], world, static_graph=True)
        seen = []
        for _ in range(4):
            with model.step():
                model.ready(1, [1.0 + world.rank])
                model.ready(1, [2.0])
                model.ready(0, [3.0])
            seen.append([model.grad(0).item(), model.grad(1).item()])
        return seen

    assert everywhere(train) == [[[3, 3.5]] * 4] * 2


def test_the_short_floats_of_ml_dtypes_are_gradients_too() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros(3, ml_dtypes.bfloat16)], world)
        with model.step():
            model.ready(0, np.full(3, 1.5 + world.rank, ml_dtypes.bfloat16))
        assert model.grad(0).dtype == ml_dtypes.bfloat16
        return model.grad(0).astype(float).tolist()

    assert everywhere(train) == [[2, 2, 2]] * 2


def test_parameters_may_be_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")

    def train(world: unisono.Group) -> Any:
        weights = torch.full((2, 2), float(world.rank))
        model = unisono.DataParallel([weights], world)
        with model.step():
            model.ready(0, torch.full((2, 2), 1.0 + world.rank))
        weights -= torch.from_numpy(model.grad(0))
        return weights.tolist()

    assert everywhere(train) == [[[-1.5, -1.5], [-1.5, -1.5]]] * 2


def test_gradients_are_those_of_torchs_ddp_to_the_bit() -> None:
    """With two ranks, where halves are exact and there is one order only."""
    pytest.importorskip("torch")

    assert run(trained_beside_ddp, 2, timeout=4 * PATIENCE) == [True, True]  # imports torch


def trained_beside_ddp(world: unisono.Group) -> bool:
    """Whether both have the same gradients and parameters in all steps."""
    import torch
    from torch import distributed, nn

    store = distributed.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    port = world.broadcast_object(store.port)
    if world.rank == 1:
        store = distributed.TCPStore("127.0.0.1", port, 2, False)
    distributed.init_process_group("gloo", store=store, rank=world.rank, world_size=2)
    torch.manual_seed(world.rank)  # DDP and DataParallel make all begin as rank 0
    module = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    inputs = torch.randn(8, 5)
    params = {name: value.detach().numpy().copy() for name, value in module.named_parameters()}
    model = unisono.DataParallel(params, world, first_bucket_bytes_cap=64)
    ddp = nn.parallel.DistributedDataParallel(module)
    is_same = True
    for _ in range(4):
        ddp.zero_grad()
        ddp(inputs).square().mean().backward()
        alone = {name: torch.from_numpy(array).requires_grad_() for name, array in params.items()}
        torch.func.functional_call(module, alone, (inputs,)).square().mean().backward()
        with model.step():
            for name in reversed(params):
                model.ready(name, alone[name].grad)
        for name, value in module.named_parameters():
            is_same &= bool((value.grad.numpy() == model.grad(name)).all())
            is_same &= bool((value.detach().numpy() == params[name]).all())
            params[name] -= np.float32(0.1) * model.grad(name)
            with torch.no_grad():
                value -= 0.1 * value.grad
    distributed.destroy_process_group()
    return is_same


def test_gradients_stay_when_all_else_is_gone() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros(3)], world)
        with model.step():
            model.ready(0, np.ones(3))
        return model.grad(0)

    gradients = everywhere(train)
    gc.collect()
    assert [values.tolist() for values in gradients] == [[1, 1, 1]] * 2


def test_parameters_that_differ_are_named_on_all_ranks() -> None:
    def train(world: unisono.Group) -> str:
        params = {"weights": np.zeros(3), "bias": np.zeros(1 + world.rank)}
        with pytest.raises(unisono.MismatchError) as caught:
            unisono.DataParallel(params, world)
        return str(caught.value)

    first, second = everywhere(train)
    assert "bias" in first and "bias" in second


def test_a_missing_gradient_is_named_on_all_ranks() -> None:
    def train(world: unisono.Group) -> str:
        model = unisono.DataParallel({"weights": np.zeros(3), "bias": np.zeros(1)}, world)
        with pytest.raises(unisono.DistError) as caught, model.step():
            if world.rank == 0:
                model.ready("bias", [1.0])
            model.ready("weights", np.ones(3))
        world._leave()
        return str(caught.value)

    for text in everywhere(train):
        assert "did not receive grad for rank 1: bias" in text


def test_who_leaves_in_the_midst_of_a_step_holds_up_nobody() -> None:
    """Also when the training, which uses the group, is still there."""
    models = []

    def train(world: unisono.Group) -> str:
        model = unisono.DataParallel([np.zeros(3)], world)
        models.append(model)
        if world.rank == 1:
            world._leave()
            with pytest.raises(unisono.DistError, match="has been left"):
                model.begin()
            return ""
        with pytest.raises(unisono.DistBackendError) as caught, model.step():
            model.ready(0, np.ones(3))
        world._leave()
        return caught.value.reason

    assert everywhere(train)[0] == "PEER_LEFT"


def test_who_dies_in_the_midst_of_a_step_is_named() -> None:
    with pytest.raises(unisono.PeerDeadError) as caught:
        run(dying_in_a_step, 2, timeout=PATIENCE)
    assert caught.value.culprits == (1,)


def dying_in_a_step(world: unisono.Group) -> None:
    model = unisono.DataParallel([np.zeros(3), np.zeros(3)], world, bucket_bytes_cap_list=[1])
    with model.step():
        model.ready(1, np.ones(3))
        if world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        model.ready(0, np.ones(3))


def test_after_a_failure_it_goes_on_with_another_group() -> None:
    with local_world(2) as others:

        def train(world: unisono.Group) -> None:
            model = unisono.DataParallel({"weights": np.zeros(3)}, world)
            with pytest.raises(unisono.DistError), model.step():
                if world.rank == 0:
                    model.ready("weights", np.ones(3))
            model.reset_state(others[world.rank])
            world._leave()
            for step in range(3):
                with model.step():
                    model.ready("weights", np.full(3, step + 2.0 * world.rank))
                assert model.grad("weights").tolist() == [step + 1.0] * 3

        everywhere(train)


BAD: dict[str, Callable[[unisono.DataParallel], object]] = {
    "there is no parameter 'nothing'": lambda model: model.ready("nothing", [1.0]),
    "there is no gradient 7 among 1": lambda model: model.grad(7),
    "there is no parameter 7 among 1": lambda model: model.ready(7),
    r"parameter weights has shape \(1,\), but the parameter \(3,\)": lambda model: model.ready(
        "weights", [1.0]
    ),
    "marked as ready twice": lambda model: twice(model.ready),
}


def twice(call: Callable[[int, Any], None]) -> None:
    for _ in range(2):
        call(0, np.ones(3))


@pytest.mark.parametrize("text", BAD)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with local_world(1) as worlds:
        model = unisono.DataParallel({"weights": np.zeros(3)}, worlds[0])
        model.begin()
        with pytest.raises(unisono.UsageError, match=text):
            BAD[text](model)


def test_what_cannot_be_trained_is_refused() -> None:
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with local_world(1) as worlds:
        for params, text in (([], "no parameters"), ([np.zeros(3, int)], "no average")):
            with pytest.raises(unisono.UsageError, match=text):
                unisono.DataParallel(params, worlds[0])
        with pytest.raises(unisono.UsageError, match="read-only"):
            unisono.DataParallel([frozen], worlds[0])
        with pytest.raises(TypeError, match="array must be"):
            unisono.DataParallel([3], worlds[0])
        with pytest.raises(TypeError, match=r"world must be a unisono\.Group, not int"):
            unisono.DataParallel([np.zeros(3)], 3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="bucket_bytes_cap must be"):
            unisono.DataParallel([np.zeros(3)], worlds[0], bucket_bytes_cap=-1)


def test_a_gradient_that_is_marked_twice_is_left_as_it_was() -> None:
    with local_world(1) as worlds:
        model = unisono.DataParallel([np.zeros(2)], worlds[0])
        model.begin()
        model.ready(0, [1.0, 2.0])
        with pytest.raises(unisono.UsageError):
            model.ready(0, [3.0, 4.0])
        model.finish()
        assert model.grad(0).tolist() == [1, 2]


def test_a_training_and_its_hook_are_collected_together() -> None:
    with local_world(1) as worlds:
        gone = weakref.ref(led_back_to(worlds[0]))

        def is_gone() -> bool:
            gc.collect()
            return gone() is None

        assert happens(is_gone)  # when the operation's thread has let go of the hook


def test_the_interpreter_is_left_in_the_midst_of_a_step() -> None:
    ended = run_python(
        """
        import numpy as np, unisono
        from unisono.testing import local_world
        context = local_world(2)
        worlds = context.__enter__()
        params = [np.zeros(3), np.zeros(3)]
        models = worlds.run(lambda world: unisono.DataParallel(params, world,
            hook=lambda bucket: world.all_reduce(bucket.buffer(), async_op=True)))
        models[0].begin()
        models[0].ready(0)
        models[0].ready(1)
        """
    )

    assert (ended.returncode, ended.stderr) == (0, ""), ended


def led_back_to(world: unisono.Group) -> unisono.DataParallel:
    """A training, after a step, whose hook knows it."""

    def reduce(bucket: Any) -> Any:
        assert len(model) == 1
        return world.all_reduce(bucket.buffer(), async_op=True)

    model = unisono.DataParallel([np.zeros(2)], world, hook=reduce)
    with model.step():
        model.ready(0, [1.0, 2.0])
    return model
