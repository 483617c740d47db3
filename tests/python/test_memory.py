"""Arrays of types that NumPy has from elsewhere, and in memory that all ranks reach."""

from __future__ import annotations

from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from tests.python.conftest import run_python
from unisono.testing import local_world

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_short_floats_of_ml_dtypes_are_reduced_as_what_they_are(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = getattr(ml_dtypes, name)

    def reduce(world: unisono.Group) -> Any:
        values = np.array([1.5, -2.0, world.rank], dtype=kind)[::-1]
        world.all_reduce(values)
        rows = world.all_gather_single(np.array([world.rank + 0.5], dtype=kind))
        assert values.dtype == rows.dtype == kind
        return [values.astype(float).tolist(), rows.astype(float).tolist()]

    with local_world(2) as worlds:
        assert worlds.run(reduce) == [[[1.0, -4.0, 3.0], [0.5, 1.5]]] * 2


def test_other_types_of_ml_dtypes_are_refused_by_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    with local_world(1) as worlds, pytest.raises(dist.UsageError, match="float8_e3m4"):
        worlds[0].all_reduce(np.zeros(2, dtype=ml_dtypes.float8_e3m4))


@pytest.mark.parametrize(("shape", "dtype"), [(7, "float32"), ((3, 4), "int64"), ((), np.float64)])
def test_memory_of_the_group_is_an_array_like_any_other(shape: Any, dtype: Any) -> None:
    def reduce(world: unisono.Group) -> Any:
        values = world.allocate(shape, dtype)
        assert (values.shape, values.dtype) == (np.zeros(shape).shape, np.dtype(dtype))
        assert not values.any()
        values += world.rank + 1
        world.all_reduce(values)
        return values

    with local_world(2) as worlds:
        results = worlds.run(reduce)

    for values in results:  # also when the group is gone
        assert (values == 3).all()


def test_what_cannot_be_had_is_refused() -> None:
    with local_world(1) as worlds, pytest.raises((dist.DistError, ValueError)):
        worlds[0].allocate(-1)


def test_memory_of_the_group_may_outlive_everything() -> None:
    ended = run_python("import unisono; x = unisono.init().allocate(5); x += 1; print(x.sum())")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "5.0\n", ""), ended
