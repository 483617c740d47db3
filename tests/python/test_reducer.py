"""What torch's _distributed_c10d has for DistributedDataParallel, for arrays."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import unisono.distributed as ours
from tests.python.conftest import PATIENCE
from unisono.distributed._kinds import Backend
from unisono.distributed._state import ProcessGroup
from unisono.testing import local_world

np = pytest.importorskip("numpy")

MIB = 1 << 20


def everywhere(function: Callable[[ProcessGroup], Any], size: int = 2) -> list[Any]:
    """With a group of torch's kind for each rank, which is a thread."""
    store = ours.HashStore()
    with local_world(size) as worlds:
        return worlds.run(
            lambda group: function(ProcessGroup(group, Backend("unisono"), [*range(size)], store))
        )


def reducer_of(group: ProcessGroup, **options: Any) -> ours.Reducer:
    """Two parameters in two buckets, the last first."""
    params = [np.zeros(3, "float32"), np.zeros((2, 2), "float32")]
    names = {0: "bias", 1: "weights"}
    return ours.Reducer(
        params, [[1], [0]], [MIB, MIB], group, param_to_name_mapping=names, **options
    )


def backward(reducer: ours.Reducer, value: float) -> None:
    reducer.set_grad(1, np.full((2, 2), value, "float32"))
    reducer._autograd_hook(1)
    reducer.set_grad(0, np.full(3, value + 1, "float32"))
    reducer._autograd_hook(0)


def gradients(reducer: ours.Reducer) -> list[float]:
    return [float(np.ravel(reducer.grad(index))[-1]) for index in range(2)]


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}])
def test_gradients_become_averages(options: dict[str, bool]) -> None:
    def train(group: ProcessGroup) -> list[Any]:
        reducer = reducer_of(group, **options)
        assert reducer.grad(0) is None
        seen: list[Any] = []
        for step in range(3):
            seen.append(reducer._rebuild_buckets())
            reducer.prepare_for_forward()
            reducer.prepare_for_backward([])
            backward(reducer, step + 2.0 * group.rank())
            reducer.finish()
            seen.append(gradients(reducer))
        return seen

    assert everywhere(train) == [[False, [2, 1], True, [3, 2], False, [4, 3]]] * 2


def test_a_gradient_of_the_programs_own_is_written_in_place() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        mine = [np.full(3, group.rank(), "float32"), np.ones((2, 2), "float32")]
        reducer.prepare_for_backward([])
        for index in (0, 1):
            reducer.set_grad(index, mine[index])
            reducer._autograd_hook(index)
        reducer.finish()
        return mine[0].tolist()

    assert everywhere(train) == [[0.5] * 3] * 2


def test_gradients_that_come_outside_a_step_stay_on_their_rank() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        backward(reducer, group.rank())
        local = gradients(reducer)
        reducer._rebuild_buckets()
        reducer.prepare_for_backward([])
        backward(reducer, group.rank())
        reducer.finish()
        return local, gradients(reducer)

    assert everywhere(train) == [([1, 0], [1.5, 0.5]), ([2, 1], [1.5, 0.5])]


def test_unused_parameters_are_known_to_all() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group, find_unused_parameters=True)
        reducer.prepare_for_backward([], unused=[] if group.rank() == 0 else [0])
        reducer.set_grad(1, np.ones((2, 2), "float32"))
        reducer._autograd_hook(1)
        if group.rank() == 0:
            reducer.set_grad(0, np.full(3, 4, "float32"))
            reducer._autograd_hook(0)
        reducer.finish()
        return reducer._get_local_used_map().tolist(), gradients(reducer)

    assert everywhere(train) == [([1, 2], [2, 1])] * 2


def test_a_static_graph_is_said_before_the_first_step() -> None:
    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        ours._register_builtin_comm_hook(reducer, ours.BuiltinCommHookType.ALLREDUCE)
        reducer._set_static_graph()
        for _ in range(3):
            reducer._rebuild_buckets()
            reducer.prepare_for_backward([])
            backward(reducer, 2.0 * group.rank())
            reducer._autograd_hook(0)  # once more, in every step
            reducer.finish()
        with pytest.raises(ours.UsageError, match="should be called before training loop starts"):
            reducer._set_static_graph()
        return gradients(reducer)

    assert everywhere(train) == [[2, 1]] * 2


def test_a_hook_gets_its_state() -> None:
    def hook(state: dict[str, Any], bucket: ours.GradBucket) -> Any:
        state["buckets"].append(bucket.index())
        return state["group"].allreduce([bucket.buffer()]).get_future()

    def train(group: ProcessGroup) -> Any:
        reducer = reducer_of(group)
        state: dict[str, Any] = {"group": group, "buckets": []}
        ours._register_comm_hook(reducer, state, hook)
        with pytest.raises(ours.UsageError, match="can only be called once"):
            ours._register_comm_hook(reducer, state, hook)
        reducer.prepare_for_backward([])
        backward(reducer, group.rank())
        reducer.finish()
        return state["buckets"], gradients(reducer)

    assert everywhere(train) == [([0, 1], [3, 1])] * 2


def test_a_step_that_is_not_finished_is_named_in_the_next() -> None:
    def train(group: ProcessGroup) -> str:
        reducer = reducer_of(group)
        reducer.prepare_for_backward([])
        reducer._autograd_hook(1)
        with pytest.raises(ours.UsageError, match="bias") as caught:
            reducer._rebuild_buckets()
        reducer._reset_state()
        reducer.prepare_for_backward([])
        backward(reducer, 1)
        reducer.finish()
        assert gradients(reducer) == [2, 1]
        return str(caught.value)

    (text,) = everywhere(train, size=1)
    assert "Expected to have finished reduction in the prior iteration" in text


def test_a_reducer_goes_on_with_another_group() -> None:
    with local_world(2) as others:

        def train(group: ProcessGroup) -> Any:
            reducer = reducer_of(group)
            other = ProcessGroup(others[group.rank()], Backend("unisono"), [0, 1], ours.HashStore())
            reducer._update_process_group(other)
            group._group._leave()
            reducer.prepare_for_backward([])
            backward(reducer, 2.0 * group.rank())
            reducer.finish()
            return gradients(reducer)

        assert everywhere(train) == [[2, 1]] * 2


def test_what_is_not_offered_is_refused() -> None:
    def make(group: ProcessGroup) -> None:
        with pytest.raises(ours.UsageError, match="use_python_reducer"):
            reducer_of(group, use_python_reducer=True)

    everywhere(make, size=1)


def test_a_step_that_is_open_can_be_asked_for() -> None:
    def train(group: ProcessGroup) -> None:
        reducer = reducer_of(group)
        reducer._check_reducer_finalized()
        reducer.prepare_for_backward([])
        reducer._check_reducer_finalized()  # nothing has come yet, as in torch
        reducer._autograd_hook(1)
        text = "Expected to have finished reduction in the prior iteration.*bias"
        with pytest.raises(ours.UsageError, match=text):
            reducer._check_reducer_finalized()
        reducer._autograd_hook(0)
        reducer.finish()
        reducer._check_reducer_finalized()

    everywhere(train, size=1)


def test_buckets_of_zeros_are_memory_of_their_own() -> None:
    def look(group: ProcessGroup) -> Any:
        reducer = reducer_of(group, gradient_as_bucket_view=True)
        reducer.set_grad(1, np.ones((2, 2), "float32"))
        buckets = reducer._get_zeros_like_grad_buckets()
        buckets[0].buffer()[...] = 5
        assert reducer._get_zeros_like_grad_buckets()[0].buffer().tolist() == [0] * 4
        return [
            (b.index(), b.is_last(), b.buffer().size, [g.shape for g in b.gradients()])
            for b in buckets
        ]

    assert everywhere(look, size=1) == [[(0, False, 4, [(2, 2)]), (1, True, 3, [(3,)])]]


def doubled(group: ProcessGroup, bucket: ours.GradBucket) -> Any:
    return group.allreduce([bucket.buffer()]).get_future().then(lambda done: done.value()[0] * 2)


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (None, 7),  # a sum
        (ours.BuiltinCommHookType.ALLREDUCE, 3.5),
        (ours.BuiltinCommHookType.FP16_COMPRESS, 3.5),
        (doubled, 14),
    ],
)
def test_a_hook_may_be_run_by_hand(hook: Any, expected: float) -> None:
    def reduce(group: ProcessGroup) -> list[float]:
        reducer = reducer_of(group)
        if callable(hook) and hook is doubled:
            ours._register_comm_hook(reducer, group, hook)
        elif hook is not None:
            ours._register_builtin_comm_hook(reducer, hook)
        seen = []
        for run in (reducer._run_comm_hook, reducer._run_allreduce_hook):
            bucket = reducer._get_zeros_like_grad_buckets()[1]
            bucket.buffer()[...] = 3 + group.rank()
            future = run(bucket)
            future.wait()
            value = future.value()
            seen.append(float(np.ravel(value[0] if isinstance(value, list) else value)[0]))
        return seen

    assert everywhere(reduce) == [[expected, 7]] * 2


@pytest.mark.parametrize(
    ("buckets", "text"), [([[0]], "is in no bucket"), ([[0, 1], [1]], "is in two"), ([[0, 7]], "7")]
)
def test_buckets_that_do_not_fit_are_refused(buckets: list[list[int]], text: str) -> None:
    def make(group: ProcessGroup) -> None:
        with pytest.raises(ours.UsageError, match=text):
            ours.Reducer([np.zeros(2), np.zeros(2)], buckets, [MIB], group)

    everywhere(make, size=1)


def test_arrays_of_one_rank_become_those_of_all() -> None:
    def share(group: ProcessGroup) -> Any:
        arrays = [np.full(5, group.rank()), np.full((2, 3), group.rank() + 0.5).T]
        ours._broadcast_coalesced(group, arrays, 16, 1)
        return [array.tolist() for array in arrays]

    assert everywhere(share) == [[[1] * 5, [[1.5] * 2] * 3]] * 2


def test_parameters_that_differ_are_named_on_all_ranks() -> None:
    def verify(group: ProcessGroup) -> None:
        ours._verify_params_across_processes(group, [np.zeros(2), np.zeros(3)])
        with pytest.raises(ours.MismatchError, match="parameter 1"):
            ours._verify_params_across_processes(group, [np.zeros(2), np.zeros(3 + group.rank())])

    everywhere(verify)


ASSIGNMENTS: list[tuple[str, list[int], dict[str, Any]]] = [
    ("f100 f200 f100 f50", [400], {}),
    ("f50 d25 f50 d25 f50 d25", [400], {}),
    ("f10 f10 f10 f10", [40, 80], {}),
    ("f50 d25 f50 d25 f50 d25", [200, 400], {}),
    ("f10 f10 f10", [40, 80, 1000], {}),
    ("f0 f0", [1], {}),
    ("f10 f10 f10", [1000], {"expect_sparse_gradient": [False, True, False]}),
    (
        "f10 f10 f10",
        [1000],
        {"expect_sparse_gradient": [False, True, False], "tensor_indices": [1, 2, 0]},
    ),
]


@pytest.mark.parametrize(("arrays", "limits", "options"), ASSIGNMENTS)
def test_buckets_are_assigned_as_torch_does(
    arrays: str, limits: list[int], options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    parts = [(part[0], int(part[1:])) for part in arrays.split()]
    tensors = [torch.zeros(n, dtype={"f": torch.float32, "d": torch.float64}[t]) for t, n in parts]

    theirs = torch.distributed._compute_bucket_assignment_by_size(tensors, limits, **options)
    mine = ours._compute_bucket_assignment_by_size(
        [np.zeros(n, t) for t, n in parts], limits, **options
    )

    assert mine == theirs


def test_what_is_no_group_is_refused() -> None:
    with local_world(1) as worlds:
        for group in (None, worlds[0]):
            with pytest.raises(TypeError, match="process_group must be a ProcessGroup, not"):
                ours._verify_params_across_processes(group, [np.zeros(2)])  # type: ignore[arg-type]


def test_what_crashes_torch_is_refused() -> None:
    with pytest.raises(ours.UsageError):
        ours._compute_bucket_assignment_by_size([np.zeros(3)], [])


FUNCTIONS = """
    _broadcast_coalesced _compute_bucket_assignment_by_size _register_builtin_comm_hook
    _register_comm_hook _verify_params_across_processes
"""


def torch_parameters(text: str) -> Iterator[tuple[str, str | None]]:
    """Names and defaults, of what pybind11 says of a function."""
    depth, part = 0, ""
    for letter in text[text.index("(") + 1 : text.index(") -> ")] + ",":
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and depth == 0:
            found = re.fullmatch(r"\s*(\w+):.*?(?: = (.*))?", part)
            assert found is not None, part
            yield found[1], found[2]
            part = ""
        else:
            part += letter


EMPTY = ("()", "[]", "{}", "None")


@pytest.mark.parametrize("name", [*FUNCTIONS.split(), "Reducer"])
def test_a_function_takes_torchs_arguments(name: str) -> None:
    c10d = pytest.importorskip("torch._C._distributed_c10d")
    called = getattr(c10d, name).__init__ if name == "Reducer" else getattr(c10d, name)
    here = inspect.signature(getattr(ours, name)).parameters.values()
    theirs = [each for each in torch_parameters(called.__doc__) if each[0] != "self"]

    assert [each.name for each in here] == [parameter for parameter, _ in theirs]
    for each, (_, default) in zip(here, theirs, strict=True):
        if default is None:
            assert each.default is inspect.Parameter.empty
        else:
            assert repr(each.default) == default or {repr(each.default), default} <= {*EMPTY}


def test_the_kinds_of_hooks_are_torchs() -> None:
    torch_dist = pytest.importorskip("torch.distributed")
    theirs = torch_dist.BuiltinCommHookType.__members__

    assert {name: kind.value for name, kind in theirs.items()} == {
        kind.name: kind.value for kind in ours.BuiltinCommHookType
    }
    for kind in ours.BuiltinCommHookType:
        assert str(kind) == str(theirs[kind.name])
        assert pickle.loads(pickle.dumps(kind)) is kind
    assert ours._DEFAULT_FIRST_BUCKET_BYTES == torch_dist._DEFAULT_FIRST_BUCKET_BYTES
    public = {name for name in dir(torch_dist.GradBucket) if not name.startswith("_")}
    assert public <= set(dir(ours.GradBucket))


def test_a_group_of_init_process_group_reduces(tmp_path: Path) -> None:
    ours.init_process_group(
        "unisono",
        init_method=f"file://{tmp_path / 'store'}",
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=PATIENCE),
    )
    try:
        group = ours.group.WORLD
        assert group is not None
        reducer = reducer_of(group)
        reducer.prepare_for_backward([])
        backward(reducer, 5)
        reducer.finish()
        assert gradients(reducer) == [6, 5]
    finally:
        ours.destroy_process_group()
