"""New arrays of the kind that the caller uses, for results that he gave no array for."""

from __future__ import annotations

import sys
from array import array as plain_array
from collections.abc import Sequence
from itertools import accumulate
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


def row_parts(array: Array, rows: Sequence[int]) -> list[Array]:
    """Its first `rows[0]` rows, the `rows[1]` after them, and so on: views, not copies."""
    seen = memoryview(array) if isinstance(array, bytes | bytearray | plain_array) else array
    ends = list(accumulate(rows))
    return [seen[end - count : end] for end, count in zip(ends, rows, strict=True)]


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


def contiguous(array: Array) -> Array:
    """The array itself, or where its elements do not lie in one row a copy of it that does so."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return array if array.flags.c_contiguous else numpy.array(array, order="C")
    return array.contiguous() if hasattr(array, "contiguous") else array


def copied(array: Array) -> Array:
    """Another array with the same elements, which lie in one row."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return numpy.array(array, order="C")
    if hasattr(array, "clone"):
        return array.contiguous().clone()
    return bytearray(array) if isinstance(array, bytes) else array[:]


def parts_of(array: Array, count: int, dim: int) -> list[Array]:
    """`count` equal parts along a dimension: views."""
    length = shape_of(array)[dim] // count
    before = (slice(None),) * dim
    return [array[(*before, slice(i * length, (i + 1) * length))] for i in range(count)]


def joined(parts: Sequence[Array], dim: int) -> Array:
    """One array of all of them, along a dimension."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(parts[0], numpy.ndarray):
        return numpy.concatenate(parts, axis=dim)
    return sys.modules["torch"].cat(parts, dim=dim)
