"""Gradients that have few rows of a table: in DataParallel, and in the Reducer of torch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import unisono
import unisono.distributed as ours
from tests.python.conftest import PATIENCE
from unisono.distributed._kinds import Backend
from unisono.distributed._state import ProcessGroup
from unisono.testing import local_world, run

np = pytest.importorskip("numpy")

ROWS = 9


def everywhere(function: Callable[[unisono.Group], Any], size: int = 2) -> list[Any]:
    with local_world(size) as worlds:
        return worlds.run(function)


def entries(gradient: Any) -> tuple[list[Any], list[Any]]:
    return gradient.indices.tolist(), gradient.values.tolist()


def model_of(world: unisono.Group, **options: Any) -> unisono.DataParallel:
    """A table of nine rows, and a bias."""
    params = {"table": np.zeros((ROWS, 2), "float32"), "bias": np.zeros(2, "float32")}
    return unisono.DataParallel(params, world, sparse=["table"], **options)


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize("static", [True, False])
def test_a_sparse_gradient_is_the_average_of_every_place_that_any_rank_has(
    view: bool, static: bool
) -> None:
    def train(world: unisono.Group) -> Any:
        model = model_of(world, gradient_as_bucket_view=view, static_graph=static)
        assert entries(model.grad("table")) == ([], [])
        for step in range(3):
            with model.step():
                model.ready("bias", [world.rank, step])
                # Rank r has row r, and everybody row 8, twice.
                rows = np.array([8, world.rank, 8], "int32")
                model.ready("table", (rows, [[1, step], [4, 4], [2, world.rank]]))
            assert model.grad("bias").tolist() == [0.5, step]
        return entries(model.grad("table"))

    assert everywhere(train) == [([0, 1, 8], [[2, 2], [2, 2], [3, 2.5]])] * 2


def test_a_rank_may_have_no_entries() -> None:
    def train(world: unisono.Group) -> Any:
        model = model_of(world)
        seen = []
        for _ in range(2):  # what was there before does not count in the second
            with model.step():
                model.ready("bias", [0, 0])
                if world.rank == 0:
                    model.ready("table", ([3], [[2, 4]]))
                else:
                    model.ready("table")
            seen.append(entries(model.grad("table")))
        return seen

    assert everywhere(train) == [[([3], [[1, 2]])] * 2] * 2


def test_what_is_accumulated_adds_up() -> None:
    def train(world: unisono.Group) -> Any:
        model = model_of(world)
        with model.no_sync(), model.step():
            model.ready("bias", [1, 1])
            model.ready("table", ([2, 2], [[1, 1], [1, 1]]))
        assert entries(model.grad("table")) == ([2, 2], [[1, 1], [1, 1]])
        with model.step():
            model.ready("bias", [1, 1])
            model.ready("table", ([5, 2], [[1, 0], [world.rank, 0]]))
        return entries(model.grad("table")), model.grad("bias").tolist()

    assert everywhere(train) == [(([2, 5], [[2.5, 2], [1, 0]]), [2, 2])] * 2


def test_a_table_is_trained_in_three_lines() -> None:
    def train(world: unisono.Group) -> Any:
        table = np.zeros((ROWS, 2))
        model = unisono.DataParallel([table], world, sparse=[0])
        for _ in range(2):
            with model.step():
                model.ready(0, ([world.rank, 8], np.ones((2, 2))))
            gradient = model.grad(0)
            table[gradient.indices] -= 0.5 * gradient.values
        model.zero_grad()
        assert entries(model.grad(0)) == ([], [])
        return table[:, 0].tolist()

    assert everywhere(train) == [[-0.5, -0.5, 0, 0, 0, 0, 0, 0, -1]] * 2


def test_single_elements_are_places_too() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel([np.zeros((3, 4))], world, sparse=[0])
        for _ in range(2):
            with model.step():
                model.ready(0, ([[0, 2], [world.rank, 3]], [2.0, 4.0]))
        return entries(model.grad(0))

    assert everywhere(train) == [([[0, 0, 2], [0, 1, 3]], [1, 1, 4])] * 2


def test_ranks_without_inputs_add_nothing() -> None:
    def train(world: unisono.Group) -> Any:
        model = model_of(world)
        with model.join():
            for _ in range(1 + world.rank):
                with model.step():
                    model.ready("bias", [1, 1])
                    model.ready("table", ([world.rank], [[2, 2]]))
        return entries(model.grad("table"))

    assert everywhere(train)[1] == ([1], [[1, 1]])


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        (np.zeros((ROWS, 2)), "it is a ndarray.* DO: give indices and values"),
        (([0.5], [[1, 1]]), r"its indices are float64\[1\]"),
        ((3, [[1, 1]]), r"its indices are int64\[\]"),
        (([1, 2], [[1, 1]]), r"values have shape \(1, 2\), but 2 places .* have \(2, 2\)"),
        (([ROWS], [[1, 1]]), "it has a place 9, but there are 9"),
        (([-1], [[1, 1]]), "it has a place -1"),
    ],
)
def test_what_is_no_sparse_gradient_is_refused_and_nothing_has_happened(
    gradient: Any, text: str
) -> None:
    def train(world: unisono.Group) -> Any:
        model = model_of(world)
        with model.step():
            with pytest.raises(unisono.UsageError, match=text) as caught:
                model.ready("table", gradient)
            assert "parameter table" in str(caught.value)
            model.ready("table", ([1], [[1, 1]]))
            model.ready("bias", [1, 1])
        return entries(model.grad("table"))

    assert everywhere(train, 1) == [([1], [[1, 1]])]


def test_mistakes_are_told_in_a_sentence() -> None:
    with local_world(1) as worlds:
        with pytest.raises(unisono.UsageError, match="there is no parameter 'tabel'"):
            unisono.DataParallel({"table": np.zeros(3)}, worlds[0], sparse=["tabel"])
        with pytest.raises(unisono.UsageError, match="there is no parameter 7"):
            unisono.DataParallel({"table": np.zeros(3)}, worlds[0], sparse=[7])
        with pytest.raises(unisono.UsageError, match="whose gradients are sparse"):
            model_of(worlds[0], hook=unisono.hooks.allreduce(worlds[0]))
        model = model_of(worlds[0], hook=ours.BuiltinCommHookType.ALLREDUCE)
        model.begin()
        model.ready("bias", [1, 1])
        with pytest.raises(unisono.UsageError, match="table"):  # it is missing
            model.finish()


# The Reducer of torch's names.


def reducers(function: Callable[[ProcessGroup], Any], size: int = 2) -> list[Any]:
    store = ours.HashStore()
    return everywhere(
        lambda group: function(ProcessGroup(group, Backend("unisono"), [*range(size)], store)), size
    )


def reducer_of(group: ProcessGroup, **options: Any) -> ours.Reducer:
    params = [np.zeros((ROWS, 2), "float32"), np.zeros(2, "float32")]
    return ours.Reducer(
        params,
        [[1], [0]],
        [1 << 20, 1 << 20],
        group,
        expect_sparse_gradients=[True, False],
        param_to_name_mapping={0: "table", 1: "bias"},
        **options,
    )


def step(reducer: ours.Reducer, rank: int) -> Any:
    reducer.prepare_for_backward([])
    reducer.set_grad(1, np.ones(2, "float32"))
    reducer._autograd_hook(1)
    reducer.set_grad(0, ([8, rank, 8], [[1, 0], [2, 2], [1, 0]]))
    reducer._autograd_hook(0)
    reducer.finish()
    return entries(reducer.grad(0))


def test_a_reducer_has_sparse_gradients() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        assert reducer.grad(0) is None
        seen = [step(reducer, group.rank())]
        assert reducer._rebuild_buckets()
        return [*seen, step(reducer, group.rank())]

    assert reducers(train) == [[([0, 1, 8], [[1, 1], [1, 1], [2, 0]])] * 2] * 2


def test_a_static_graph_keeps_them() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        reducer.set_grad(0, ([4], [[1, 1]]))
        reducer._set_static_graph()
        assert entries(reducer.grad(0)) == ([4], [[1, 1]])
        return [step(reducer, group.rank()) for _ in range(3)][2]

    assert reducers(train) == [([0, 1, 8], [[1, 1], [1, 1], [2, 0]])] * 2


def test_one_that_is_missing_is_told_in_torchs_words() -> None:
    def train(group: ProcessGroup) -> None:
        reducer = reducer_of(group)
        reducer.prepare_for_backward([])
        with pytest.raises(ours.UsageError, match="Expected sparse gradient to be defined"):
            reducer._autograd_hook(0)
        reducer.set_grad(0, ([1], [[1, 1]]))
        reducer.set_grad(0, None)
        with pytest.raises(ours.UsageError, match="Expected sparse gradient to be defined"):
            reducer._autograd_hook(0)

    reducers(train, 1)


def test_metadata_names_the_rows_of_one_step() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        reducer._set_sparse_metadata({"table": np.array([8, 0, 5, 1])})
        return step(reducer, group.rank()), step(reducer, group.rank())

    named = ([0, 1, 5, 8], [[1, 1], [1, 1], [0, 0], [2, 0]])
    assert reducers(train) == [(named, ([0, 1, 8], [[1, 1], [1, 1], [2, 0]]))] * 2


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"other": [1]}, "param: table not found in sparse metadata"),
        ({"table": [0, 1]}, "Sparse metadata and gradient size mismatch"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(metadata: Any, text: str) -> None:
    def train(group: ProcessGroup) -> None:
        reducer = reducer_of(group)
        reducer._set_sparse_metadata(metadata)
        with pytest.raises(ours.UsageError, match=text):
            step(reducer, group.rank())

    reducers(train, 1)


# Beside torch.


def test_they_are_those_of_torchs_ddp_to_the_bit() -> None:
    """With two ranks, where halves are exact and there is one order only."""
    pytest.importorskip("torch")

    assert run(trained_beside_ddp, 2, timeout=4 * PATIENCE) == [[], []]  # imports torch


def trained_beside_ddp(world: unisono.Group) -> list[str]:
    """What differs between torch's DDP, DataParallel, and a Reducer of torch's names."""
    import torch
    from torch import distributed, nn

    store = distributed.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    port = world.broadcast_object(store.port)
    if world.rank == 1:
        store = distributed.TCPStore("127.0.0.1", port, 2, False)
    distributed.init_process_group("gloo", store=store, rank=world.rank, world_size=2)
    torch.manual_seed(world.rank)  # all begin as rank 0
    module = nn.Sequential(nn.Embedding(50, 3, sparse=True), nn.Linear(3, 1))
    params = {name: value.detach().numpy().copy() for name, value in module.named_parameters()}
    model = unisono.DataParallel(params, world, sparse=["0.weight"])
    ddp = nn.parallel.DistributedDataParallel(module)
    group = ProcessGroup(world, Backend("unisono"), [0, 1], ours.HashStore())
    reducer = ours.Reducer(
        list(params.values()),
        [[2, 1], [0]],
        [1 << 20] * 2,
        group,
        expect_sparse_gradients=[True, False, False],
    )
    seen = []
    for step in range(4):
        words = torch.randint(0, 50, (7,))
        ddp.zero_grad()
        ddp(words).square().mean().backward()
        alone = {name: torch.from_numpy(array).requires_grad_() for name, array in params.items()}
        torch.func.functional_call(module, alone, (words,)).square().mean().backward()
        mine = {name: given(value.grad) for name, value in alone.items()}
        with model.step():
            for name in reversed(mine):
                model.ready(name, mine[name])
        reducer._rebuild_buckets()
        reducer.prepare_for_backward([])
        for index, gradient in reversed(list(enumerate(mine.values()))):
            reducer.set_grad(index, gradient)
            reducer._autograd_hook(index)
        reducer.finish()
        for index, (name, value) in enumerate(module.named_parameters()):
            theirs = given(value.grad.coalesce() if value.grad.is_sparse else value.grad)
            for here in (model.grad(name), reducer.grad(index)):
                if here is None or not all(map(np.array_equal, here, theirs)):
                    seen.append(f"{name} in step {step}: {here} and {theirs}")
            if index == 0:
                gradient = model.grad(name)
                params[name][gradient.indices] -= np.float32(0.1) * gradient.values
            else:
                params[name] -= np.float32(0.1) * model.grad(name)
            with torch.no_grad():
                value -= 0.1 * value.grad
    distributed.destroy_process_group()
    return seen


def given(gradient: Any) -> Any:
    """What torch has computed, as arrays."""
    if gradient.is_sparse:
        return gradient._indices()[0].numpy(), gradient._values().numpy()
    return gradient.numpy().copy()
