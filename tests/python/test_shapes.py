"""Operations on arrays of any shape, type and layout give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import unisono
from unisono.testing import LocalWorld, local_world

np = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is missing: scripts/setup.sh")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as some  # noqa: E402
from hypothesis.extra.numpy import array_shapes  # noqa: E402

R = 3
# Always the same examples, so that a run can be repeated; no limit of time for one, since the
# machine may be busy.
FEW = settings(max_examples=60, deadline=None, derandomize=True, database=None)

TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda array: array,
    "transposed": lambda array: array.T,
    "backwards": lambda array: array[::-1],
    "every second": lambda array: np.repeat(array, 2, axis=0)[::2],
    "of Fortran": np.asfortranarray,
}
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "product": np.multiply.reduce,
}

types = some.sampled_from(TYPES)
layouts = some.sampled_from(sorted(LAYOUTS))
shapes = array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@pytest.fixture(scope="module")
def worlds() -> Iterator[LocalWorld]:
    with local_world(R) as made:
        yield made


def arrays(shape: tuple[int, ...], dtype: str, layout: str, seed: int) -> list[Any]:
    """One for each rank, of numbers so small that every order of adding them is exact."""
    random = np.random.default_rng(seed)
    return [LAYOUTS[layout](random.integers(0, 4, shape).astype(dtype)) for _ in range(R)]


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)


@FEW
@given(shapes, types, layouts, some.sampled_from(sorted(REDUCTIONS)), some.integers(0, 9))
def test_all_reduce(
    worlds: LocalWorld, shape: tuple[int, ...], dtype: str, layout: str, op: str, seed: int
) -> None:
    given = arrays(shape, dtype, layout, seed)
    expected = REDUCTIONS[op](given, dtype=dtype) if op in ("sum", "product") else None
    expected = REDUCTIONS[op](given) if expected is None else expected

    for found in worlds.run(lambda world: world.all_reduce(given[world.rank], op)):
        same(found, expected)


@FEW
@given(shapes, types, layouts, some.integers(0, R - 1), some.integers(0, 9))
def test_broadcast_and_gather(
    worlds: LocalWorld, shape: tuple[int, ...], dtype: str, layout: str, root: int, seed: int
) -> None:
    given = arrays(shape, dtype, layout, seed)
    before = [array.copy() for array in given]

    def call(world: unisono.Group) -> tuple[Any, Any, Any]:
        mine = given[world.rank]
        gathered = world.gather(mine, root=root)
        whole = world.all_gather_single(mine)
        return gathered, whole, world.broadcast(mine, root)

    for rank, (gathered, whole, sent) in enumerate(worlds.run(call)):
        assert (gathered is None) == (rank != root)
        for found, expected in zip(gathered or [], before, strict=False):
            same(found, expected)
        same(whole, np.concatenate(before))
        same(sent, before[root])


@FEW
@given(
    some.lists(some.lists(some.integers(0, 4), min_size=R, max_size=R), min_size=R, max_size=R),
    array_shapes(min_dims=1, max_dims=2, max_side=3),
    types,
    some.integers(0, 9),
)
def test_all_to_all_and_those_of_many_rows(
    worlds: LocalWorld, rows: list[list[int]], shape: tuple[int, ...], dtype: str, seed: int
) -> None:
    """`rows[a][b]` go from rank a to rank b."""
    random = np.random.default_rng(seed)
    given = [random.integers(0, 4, (sum(row), *shape)).astype(dtype) for row in rows]
    coming = [[row[rank] for row in rows] for rank in range(R)]

    def call(world: unisono.Group) -> tuple[Any, Any]:
        mine = given[world.rank]
        into, out = coming[world.rank], rows[world.rank]
        moved = world.all_to_all_single(mine, output_splits=into, input_splits=out)
        return moved, world.all_gather_v(mine)

    parts = [np.split(given[rank], np.cumsum(rows[rank])[:-1]) for rank in range(R)]
    for rank, (moved, whole) in enumerate(worlds.run(call)):
        if moved.size:  # without splits that say anything all parts are equal
            same(moved, np.concatenate([parts[source][rank] for source in range(R)]))
        same(whole, np.concatenate(given))
