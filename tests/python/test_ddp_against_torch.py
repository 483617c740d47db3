"""Gradients, parameters and buckets are those of torch's DistributedDataParallel over Gloo.

The cases are in ddp_cases.py and ddp_hook_cases.py: unused parameters, several batches per step,
static graphs, uneven inputs, hooks, types and layouts. Both libraries train in the same processes
on the same inputs. Between two ranks there is one order to add in, and dividing by two is exact:
there every bit is the same.
"""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")

# Between three ranks unisono divides once, after adding up, and torch before; each rounds.
TOLERANCES = {"float64": 1e-12, "complex128": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
ROUNDED = 2e-5
# What is computed by matrices, whose products the libraries do not add up in one order.
BY_MATRICES = 2e-3
"""Of the largest value of an array."""


def names() -> list[str]:
    from tests.python import ddp_cases, ddp_hook_cases  # noqa: F401 (it adds cases)

    return list(ddp_cases.CASES)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", names())
def test_both_end_alike(name: str, size: int) -> None:
    from tests.python.ddp_driver import results

    for rank, found in enumerate(results()[:size]):
        rows = found[size][name]
        assert rows
        for what, mine, theirs in rows:
            check(mine, theirs, tolerance_of(name, size), f"{what}, rank {rank}")


def tolerance_of(name: str, size: int) -> float | None:
    """By how much values may differ, relatively to the largest; None for not at all."""
    if "PowerSGD" in name:
        return BY_MATRICES
    if "quantised" in name:
        return ROUNDED
    short = [TOLERANCES[kind] for kind in TOLERANCES if kind in name]
    if "16-bit" in name:
        short = [TOLERANCES["float16"]]
    return None if size == 2 else max([ROUNDED, *short])


def check(mine: Any, theirs: Any, tolerance: float | None, what: str) -> None:
    if not (isinstance(mine, list) and any(hasattr(each, "dtype") for each in mine)):
        assert mine == theirs, what
        return
    assert len(mine) == len(theirs), what
    for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        where = f"{what}, parameter {at}"
        if one is None or other is None:
            assert one is None and other is None, where
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        if tolerance is None:
            assert np.array_equal(one, other), f"{where}: {one} is not {other}"
        elif one.size:
            kind = "complex128" if one.dtype.kind == "c" else "float64"
            exact = one.astype(kind), other.astype(kind)
            far = np.abs(exact[0] - exact[1]).max()
            assert far <= tolerance * np.abs(exact[1]).max(), f"{where}: {one} is not {other}"
