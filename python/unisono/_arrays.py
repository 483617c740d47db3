"""New arrays of the kind that the caller uses, for results that he gave no array for."""

from __future__ import annotations

import sys
from array import array as plain_array
from typing import Any

from unisono._refusal import refusal

Array = Any
"""Whatever has the buffer protocol or __dlpack__: of NumPy, PyTorch, array.array, bytearray."""


def shape_of(array: Array) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    return (len(array),) if shape is None else tuple(shape)


def empty_like(array: Array, shape: tuple[int, ...] | None = None) -> Array:
    """An array of the same kind and type of elements, which are still to be written."""
    shape = shape_of(array) if shape is None else shape
    numpy = sys.modules.get("numpy")  # who has an array of it has imported it
    if numpy is not None and isinstance(array, numpy.ndarray):
        return numpy.empty(shape, array.dtype)
    if hasattr(array, "new_empty"):
        return array.new_empty(shape)
    if isinstance(array, bytes | bytearray):
        return bytearray(shape[0])
    if isinstance(array, plain_array):
        return plain_array(array.typecode, bytes(shape[0] * array.itemsize))
    raise refusal(
        f"there is no way to make another {type(array).__name__}", "give an array for the result"
    )


def rows_times(array: Array, factor: int) -> Array:
    """One with `factor` times as many rows."""
    shape = shape_of(array) or (1,)
    return empty_like(array, (shape[0] * factor, *shape[1:]))


def rows_share(array: Array, parts: int) -> Array:
    """One with as many rows as each of `parts` equal parts has."""
    shape = shape_of(array)
    if not shape or shape[0] % parts != 0:
        raise refusal(f"an array of shape {shape} has no {parts} equal parts")
    return empty_like(array, (shape[0] // parts, *shape[1:]))
