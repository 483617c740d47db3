"""The hooks of unisono.hooks: what each makes of gradients, in numbers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import unisono
from unisono import Group, hooks
from unisono.testing import local_world

np = pytest.importorskip("numpy")

SIZE = 3


def gradients_of(rank: int, step: int = 0) -> list[Any]:
    """Of a matrix and a vector; others for each rank and step."""
    random = np.random.RandomState(100 * step + rank)
    return [
        random.standard_normal((40, 30)).astype(np.float32),
        random.rand(700).astype(np.float32),
    ]


def averages(step: int = 0, size: int = SIZE) -> list[Any]:
    ranks = [gradients_of(rank, step) for rank in range(size)]
    return [sum(parts) / size for parts in zip(*ranks, strict=True)]


def steps_with(
    make: Callable[[Group], Any],
    steps: int = 1,
    size: int = SIZE,
    gradients: Callable[[int, int], list[Any]] = gradients_of,
    **options: Any,
) -> list[list[list[Any]]]:
    """By rank and step, what became of the gradients."""

    def train(world: Group) -> list[list[Any]]:
        params = [np.zeros_like(each) for each in gradients(0, 0)]
        model = unisono.DataParallel(params, world, hook=make(world), **options)
        seen = []
        for step in range(steps):
            with model.step():
                for index, gradient in reversed(list(enumerate(gradients(world.rank, step)))):
                    model.ready(index, gradient)
            seen.append([model.grad(index).copy() for index in range(len(params))])
        return seen

    with local_world(size) as worlds:
        return worlds.run(train)


def all_equal(results: list[list[list[Any]]]) -> bool:
    """Whether all ranks have the same bits."""
    first = results[0]
    return all(
        np.array_equal(one, other)
        for rest in results[1:]
        for mine, theirs in zip(first, rest, strict=True)
        for one, other in zip(mine, theirs, strict=True)
    )


def test_the_plain_hook_gives_the_average() -> None:
    results = steps_with(hooks.allreduce, steps=3)
    assert all_equal(results)
    for step in range(3):
        for got, right in zip(results[0][step], averages(step), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-6)


def test_without_communication_everybody_keeps_its_own() -> None:
    results = steps_with(lambda _: hooks.noop)
    for rank, steps in enumerate(results):
        for got, right in zip(steps[0], gradients_of(rank), strict=True):
            assert np.array_equal(got, right)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_short_numbers_are_divided_then_summed_then_converted_back(name: str) -> None:
    kind = np.dtype(name if name == "float16" else pytest.importorskip("ml_dtypes").bfloat16)
    hook = hooks.fp16_compress if name == "float16" else hooks.bf16_compress
    results = steps_with(hook, size=2)
    assert all_equal(results)
    for index, got in enumerate(results[0][0]):
        short = [(gradients_of(r)[index] / 2).astype(kind).astype(np.float32) for r in range(2)]
        assert np.array_equal(got, (short[0] + short[1]).astype(kind).astype(np.float32))
        assert got.dtype == np.float32


def test_a_sum_beyond_float16_is_no_infinity_when_the_average_is_not() -> None:
    large = [np.full(4, 50_000, np.float32)]
    results = steps_with(hooks.fp16_compress, size=2, gradients=lambda _rank, _step: large)
    assert np.array_equal(results[0][0][0], large[0].astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_wrapper_lets_another_hook_work_on_short_numbers(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    wrap = hooks.fp16_wrapper if name == "float16" else hooks.bf16_wrapper
    kinds = []

    def make(world: Group) -> Any:
        def inner(bucket: Any) -> Any:
            kinds.append(bucket.buffer().dtype.name)
            return world.all_reduce(bucket.buffer(), "avg", async_op=True)

        return wrap(inner)

    results = steps_with(make)
    assert set(kinds) == {name}
    assert all_equal(results)
    tolerance = 2e-3 if name == "float16" else 2e-2
    for got, right in zip(results[0][0], averages(), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)


def rounded(values: Any) -> Any:
    """As 256 steps between the least and the most, of which 0 is one."""
    least, most = min(values.min(), 0), max(values.max(), 0)
    step = max((most - least) / np.float32(255), np.finfo(np.float32).eps)
    zero = np.clip(-np.rint(least / step), 0, 255)
    return step * (np.clip(np.rint(values / step) + zero, 0, 255) - zero)


@pytest.mark.parametrize("row", [None, 512, 64, 7])
def test_quantised_values_are_averages_of_rounded_ones(row: int | None) -> None:
    def make(world: Group) -> Any:
        if row is None:
            return hooks.quantize_per_tensor(world)
        return hooks.quantize_per_channel(world, row)

    def values(rank: int, _step: int = 0) -> list[Any]:
        return [np.concatenate([each.ravel() for each in gradients_of(rank)])]

    def sent(rank: int) -> Any:
        (whole,) = values(rank)
        length = row or whole.size
        padded = np.concatenate([whole, np.zeros(-whole.size % length, np.float32)])
        return np.concatenate([rounded(part) for part in padded.reshape(-1, length)])[: whole.size]

    results = steps_with(make, gradients=values)
    assert all_equal(results)
    right = sum(sent(rank) for rank in range(SIZE)) / SIZE
    np.testing.assert_allclose(results[0][0][0], right, rtol=1e-5, atol=1e-6)


def test_a_bucket_of_zeros_stays_one() -> None:
    zeros = [np.zeros(5, np.float32)]
    results = steps_with(hooks.quantize_per_tensor, gradients=lambda _rank, _step: zeros)
    assert np.array_equal(results[0][0][0], zeros[0])


# PowerSGD.


def test_steps_before_the_start_are_averaged_as_they_are() -> None:
    results = steps_with(lambda world: hooks.PowerSGD(world, start_iter=2), steps=2)
    for step in range(2):
        for got, right in zip(results[0][step], averages(step), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_matrices_become_of_low_rank_and_vectors_stay_exact(rank: int) -> None:
    results = steps_with(lambda world: hooks.PowerSGD(world, rank=rank, start_iter=2), steps=4)
    assert all_equal(results)
    matrix, vector = results[0][3]
    assert np.linalg.matrix_rank(matrix, tol=1e-3) == rank
    np.testing.assert_allclose(vector, averages(3)[1], rtol=1e-5, atol=1e-6)


def test_a_matrix_of_low_rank_is_sent_exactly() -> None:
    random = np.random.RandomState(1)
    columns, rows = random.rand(40, 2), random.rand(2, 30)

    def gradients(world_rank: int, _step: int) -> list[Any]:
        return [((world_rank + 1) * columns @ rows).astype(np.float32)]

    def make(world: Group) -> Any:
        return hooks.PowerSGD(world, rank=2, start_iter=2)

    results = steps_with(make, steps=4, gradients=gradients)
    np.testing.assert_allclose(results[0][3][0], 2 * columns @ rows, rtol=1e-3, atol=1e-4)


def low_rank(world_rank: int, shape: tuple[int, ...] = (40, 30)) -> Any:
    """A matrix of rank 1, other multiples of which the ranks have."""
    columns = np.prod(shape[1:])
    values = np.outer(np.sin(np.arange(shape[0]) + 1), np.cos(np.arange(columns)))
    return ((world_rank + 1) * values).reshape(shape).astype(np.float32)


def power_sgd(world: Group) -> Any:
    return hooks.PowerSGD(world, rank=2, start_iter=2)


def test_factors_may_have_more_columns_than_a_matrix_has_rank() -> None:
    results = steps_with(power_sgd, steps=5, gradients=lambda rank, _step: [low_rank(rank)])
    for step in (2, 3, 4):
        np.testing.assert_allclose(results[0][step][0], low_rank(1), atol=1e-4)


def test_after_a_gradient_of_zeros_there_are_others() -> None:
    def gradients(world_rank: int, step: int) -> list[Any]:
        return [low_rank(world_rank) * (step == 4)]

    results = steps_with(power_sgd, steps=5, gradients=gradients)
    assert all_equal(results)
    assert not results[0][3][0].any()
    np.testing.assert_allclose(results[0][4][0], low_rank(1), atol=1e-4)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_seen_in_its_step_only(wrong: float) -> None:
    def gradients(world_rank: int, step: int) -> list[Any]:
        matrix = low_rank(world_rank)
        matrix[0, 0] = wrong if (world_rank, step) == (1, 3) else matrix[0, 0]
        return [matrix]

    for steps in steps_with(power_sgd, steps=5, gradients=gradients):
        assert not np.isfinite(steps[3][0][0, 0])
        assert np.isfinite(steps[4][0]).all()


def test_gradients_that_lie_in_fortrans_order_are_reduced_in_their_place() -> None:
    shape = (24, 4, 6)

    def train(world: Group) -> Any:
        table, small = np.zeros(shape, np.float32, order="F"), np.zeros((2, 2, 2), order="F")
        model = unisono.DataParallel([table, small], world, hook=power_sgd(world))
        for _ in range(3):
            with model.step():
                model.ready(0, low_rank(world.rank, shape))
                model.ready(1, np.arange(8.0).reshape(2, 2, 2) * (world.rank + 1))
        return model.grad(0), model.grad(1)

    with local_world(2) as worlds:
        for large, small in worlds.run(train):
            np.testing.assert_allclose(large, 1.5 * low_rank(0, shape), atol=1e-4)
            np.testing.assert_allclose(small, 1.5 * np.arange(8.0).reshape(2, 2, 2))


def test_what_is_left_out_comes_with_later_steps() -> None:
    def gradients(world_rank: int, _step: int) -> list[Any]:
        return gradients_of(world_rank)

    steps = 60

    def missing(**options: Any) -> float:
        def make(world: Group) -> Any:
            return hooks.PowerSGD(world, rank=4, start_iter=2, **options)

        results = steps_with(make, steps=steps, gradients=gradients)
        total = sum(step[0] for step in results[0])
        right = steps * averages()[0]
        return float(np.linalg.norm(total - right) / np.linalg.norm(right))

    assert missing() < 0.3 * missing(error_feedback=False, warm_start=False)


def test_it_says_how_much_smaller_gradients_became() -> None:
    kept = []

    def make(world: Group) -> Any:
        hook = hooks.PowerSGD(world, start_iter=2)
        if world.rank == 0:
            kept.append(hook)
        return hook

    steps_with(make, steps=4)
    assert kept[0].compression() == (1900 / 770, 2 * 1900, 2 * 770)  # 40 + 30 of 1200, and 700


def test_it_goes_on_after_it_was_stored() -> None:
    with local_world(1) as worlds:
        hook = hooks.PowerSGD(worlds[0], start_iter=2, rank=3)
        hook.iter = 7
        loaded = pickle.loads(pickle.dumps(hook))
        assert (loaded.iter, loaded.world) == (7, None)
        with pytest.raises(unisono.UsageError, match="no group since it was loaded"):
            loaded(None)
        loaded.world = worlds[0]
        assert steps_with(lambda _: loaded, size=1)[0]


# Less often.


@pytest.mark.parametrize("average_later", [True, False])
def test_after_a_while_only_a_subgroup_is_averaged_over(average_later: bool) -> None:
    def make(world: Group) -> Any:
        half = world.split(world.rank // 2)
        assert half is not None
        return hooks.PostLocalSGD(world, half, 2, average_later=average_later)

    def gradients(world_rank: int, _step: int) -> list[Any]:
        return [np.full(3, float(world_rank))]

    results = steps_with(make, steps=4, size=4, gradients=gradients)
    later = [0.5, 0.5, 2.5, 2.5] if average_later else [0.0, 1.0, 2.0, 3.0]
    for rank, steps in enumerate(results):
        assert [float(step[0][0]) for step in steps] == [1.5, 1.5, later[rank], later[rank]]


def test_parameters_are_averaged_now_and_then() -> None:
    def rank(world: Group) -> list[tuple[bool, float]]:
        averager = hooks.PeriodicAverage(world, period=2, warmup_steps=1)
        seen = []
        for _ in range(5):
            param = np.full(2, float(world.rank))
            seen.append((averager.average({"weights": param}), float(param[0])))
        return seen

    with local_world(SIZE) as worlds:
        for own, seen in enumerate(worlds.run(rank)):
            assert seen == [(False, own), (True, 1.0), (False, own), (True, 1.0), (False, own)]


# Mistakes.


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda world: hooks.PowerSGD(world, rank=0), "rank is 0"),
        (lambda world: hooks.PowerSGD(world, start_iter=1), "rebuilt after the first step"),
        (lambda world: hooks.quantize_per_channel(world, 0), "bucket_size is 0"),
        (lambda world: hooks.PeriodicAverage(world, 0), "period is 0"),
        (lambda world: hooks.PeriodicAverage(world, 1, -1), "warmup_steps is -1"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(call: Any, text: str) -> None:
    with local_world(1) as worlds, pytest.raises(ValueError, match=text):
        call(worlds[0])
