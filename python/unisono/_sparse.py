"""Sparse gradients: the few rows of a table that a step has read."""

from __future__ import annotations

from typing import NamedTuple

from unisono._arrays import Array, shape_of
from unisono._refusal import refusal


class SparseGradient(NamedTuple):
    """A gradient that is 0 but in a few places: `values[i]` belongs to `table[indices[i]]`.

        table[gradient.indices] -= rate * gradient.values

    A place may occur several times in one that is given: its values add up. In an average each
    occurs once, and they are in order. Where single elements are meant instead of rows, `indices`
    has a row for each dimension, as numpy.nonzero() has, and the place is `table[tuple(indices)]`.
    """

    indices: Array
    values: Array


class Table:
    """A parameter whose gradients are sparse."""

    def __init__(self, name: str | int, array: Array) -> None:
        import numpy

        self._name = name
        self._shape = shape_of(array)
        self._dtype = numpy.asarray(array).dtype
        self._sparse = 1  # dimensions, of the last gradient

    def entries(self, gradient: object) -> tuple[Array, Array]:
        """The indices, a row for each sparse dimension, and the values: copies."""
        import numpy

        if not isinstance(gradient, tuple | list) or len(gradient) != 2:
            raise self._refused(f"it is a {type(gradient).__name__}", "give indices and values")
        given = numpy.asarray(gradient[0])
        if given.size == 0:
            given = given.astype(numpy.int64)
        if given.ndim not in (1, 2) or given.dtype.kind not in "iu":
            raise self._refused(
                f"its indices are {given.dtype}{list(given.shape)}",
                "give whole numbers in a row, or in a row for each sparse dimension",
            )
        indices = numpy.array(given, numpy.int64, ndmin=2, order="C")
        sparse, count = indices.shape
        values = numpy.array(gradient[1], self._dtype, order="C")
        if values.shape != (count, *self._shape[sparse:]):
            raise self._refused(
                f"its values have shape {values.shape}, but {count} places of a parameter of shape"
                f" {self._shape} have {(count, *self._shape[sparse:])}",
                "give values for each place",
            )
        for row, length in zip(indices, self._shape, strict=False):
            if count and not 0 <= row.min() <= row.max() < length:
                wrong = row.min() if row.min() < 0 else row.max()
                raise self._refused(
                    f"it has a place {wrong}, but there are {length}", "count places from 0 on"
                )
        self._sparse = sparse
        return indices, values

    def nothing(self) -> tuple[Array, Array]:
        """A gradient without entries, of as many sparse dimensions as the last, or one."""
        import numpy

        no_values = numpy.empty((0, *self._shape[self._sparse :]), self._dtype)
        return numpy.empty((self._sparse, 0), numpy.int64), no_values

    def sum_of(
        self, first: tuple[Array, Array], second: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Entries that add up, since places may occur several times."""
        import numpy

        if not first[1].size:
            return second
        if len(first[0]) != len(second[0]):
            raise self._refused(
                f"{len(second[0])} of its dimensions are sparse, but {len(first[0])} of what it is"
                " added to",
                "give indices of the same kind",
            )
        indices = numpy.concatenate([first[0], second[0]], axis=1)
        return indices, numpy.concatenate([first[1], second[1]])

    def spread(self, entries: tuple[Array, Array], places: Array) -> tuple[Array, Array]:
        """The same gradient with an entry for each of `places`, 0 where it had none."""
        import numpy

        indices, values = entries
        wanted = numpy.unique(numpy.asarray(places, numpy.int64))
        if indices.shape[0] != 1 or not numpy.isin(indices, wanted).all():
            raise self._refused(
                "Sparse metadata and gradient size mismatch: it has places that the metadata has"
                " not",
                "name all places that any rank has",
            )
        whole = numpy.zeros((wanted.size, *self._shape[1:]), values.dtype)
        numpy.add.at(whole, numpy.searchsorted(wanted, indices[0]), values)
        return self.entries((wanted, whole))

    def _refused(self, why: str, remedy: str) -> Exception:
        return refusal(f"the gradient of parameter {self._name} is refused: {why}", remedy)


def as_gradient(entries: tuple[Array, Array] | None) -> SparseGradient | None:
    """As users see it."""
    if entries is None:
        return None
    indices, values = entries
    return SparseGradient(indices[0] if len(indices) == 1 else indices, values)
