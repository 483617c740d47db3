"""PowerSGD: matrices of gradients travel as two narrow factors."""

from __future__ import annotations

from typing import Any

import numpy

from unisono import _core
from unisono._arrays import Array
from unisono._future import Future
from unisono._group import Group
from unisono._refusal import refusal
from unisono._work import Work


class PowerSGD:
    """Sends each matrix of gradients as the product of two of `rank` columns, its nearest ones.

    What that leaves out of a gradient is added to the next one (`error_feedback`), and the factors
    of a step begin with those of the last (`warm_start`), so little is lost over several steps.
    Infinities and NaN go into no later step.

    - `start_iter`: how many steps are averaged as they are before; at least 2 with one of these
      two, since buckets are rebuilt after the first.
    - `min_compression_rate`: a matrix that would not become smaller by this factor goes as it is,
      as vectors do.
    - `epsilon`: is added to lengths that are divided by.
    - `seed`: of the first factors; the same on all ranks.

    Its operations are waited for in the hook, one after the other, which keeps their order the same
    on all ranks. Ranks on processors of different kinds may round differently here, and drift apart
    by as much. It can be pickled, without the group: set `world` after loading.
    """

    def __init__(
        self,
        world: Group,
        *,
        rank: int = 1,
        start_iter: int = 1000,
        min_compression_rate: float = 2.0,
        error_feedback: bool = True,
        warm_start: bool = True,
        epsilon: float = 0.0,
        seed: int = 0,
    ) -> None:
        if rank < 1:
            raise refusal(f"rank is {rank}, but the factors have at least one column")
        if (error_feedback or warm_start) and start_iter <= 1:
            raise refusal(
                f"start_iter is {start_iter}, but error_feedback and warm_start keep something for "
                "each bucket, and buckets are rebuilt after the first step",
                "begin with step 2 or later, or turn both off",
            )
        self.world: Group | None = world
        self.iter = 0
        self._rank = rank
        self._start_iter = start_iter
        self._rate = min_compression_rate
        self._error_feedback = error_feedback
        self._warm_start = warm_start
        self._epsilon = epsilon
        self._random = numpy.random.RandomState(seed)
        self._errors: dict[int, Array] = {}  # by bucket
        self._factors: dict[int, list[Array]] = {}
        self._before = self._after = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "world": None}

    def compression(self) -> tuple[float, int, int]:
        """How much smaller it made gradients so far: the factor, elements before and after."""
        return self._before / max(self._after, 1), self._before, self._after

    def __call__(self, bucket: _core.GradBucket) -> Future:
        if self.world is None:
            raise refusal("this PowerSGD has no group since it was loaded", "set its `world` first")
        is_early = self.iter < self._start_iter
        if bucket.is_last():
            self.iter += 1
        if is_early:
            early: Work[Array] = self.world.all_reduce(bucket.buffer(), "avg", async_op=True)
            return early.get_future()
        self._reduce(bucket, self.world)
        future = Future()
        future.set_result(bucket.buffer())
        return future

    def _reduce(self, bucket: _core.GradBucket, world: Group) -> None:
        whole, index = bucket.buffer(), bucket.index()
        kept = None
        if self._error_feedback:
            error = self._errors.get(index)
            if error is not None and error.shape == whole.shape:
                whole += error
            kept = whole.copy()
        large, rest = self._sorted(bucket.gradients())
        self._average(rest, world)
        if large:
            self._approximate(large, index, world)
        if kept is not None:
            kept -= whole
            kept[~numpy.isfinite(kept)] = 0
            self._errors[index] = kept

    def _sorted(self, gradients: list[Array]) -> tuple[list[Array], list[Array]]:
        """What is sent as factors, and what as it is. Both are views."""
        large: list[Array] = []
        rest: list[Array] = []
        for gradient in gradients:
            rows = gradient.shape[0] if gradient.ndim > 1 else 0
            columns = gradient.size // rows if rows else 0
            sent = (rows + columns) * min(rows, columns, self._rank)
            is_worth_it = sent * self._rate < rows * columns
            (large if is_worth_it else rest).append(gradient)
            self._before += gradient.size
            self._after += sent if is_worth_it else gradient.size
        return large, rest

    def _average(self, arrays: list[Array], world: Group) -> None:
        if not arrays:
            return
        row = numpy.concatenate([array.reshape(-1) for array in arrays])
        world.all_reduce(row, "avg")
        for array, values in zip(arrays, _split(row, [a.shape for a in arrays]), strict=True):
            array[...] = values

    def _approximate(self, gradients: list[Array], index: int, world: Group) -> None:
        """Each becomes p qᵀ: p spans its columns, q are its rows in terms of p."""
        kind = numpy.result_type(gradients[0].dtype, numpy.float32)
        exact = [each.reshape(len(each), -1).astype(kind, copy=False) for each in gradients]
        right = self._right_factors(exact, index, kind)
        left = _summed([m @ q for m, q in zip(exact, right, strict=True)], world)
        for factor in left:
            self._make_orthogonal(factor)
        right = _summed([m.T @ p for m, p in zip(exact, left, strict=True)], world)
        for gradient, p, q in zip(gradients, left, right, strict=True):
            q /= world.size
            gradient[...] = (p @ q.T).reshape(gradient.shape)
        if self._warm_start:
            self._factors[index] = right

    def _right_factors(
        self, matrices: list[Array], index: int, kind: numpy.dtype[Any]
    ) -> list[Array]:
        shapes = [(m.shape[1], min(*m.shape, self._rank)) for m in matrices]
        factors = self._factors.get(index, []) if self._warm_start else []
        if [factor.shape for factor in factors] != shapes:
            factors = [numpy.zeros(shape, kind) for shape in shapes]
        for factor in factors:
            useless = ~numpy.isfinite(factor).all(axis=0) | ~factor.any(axis=0)
            drawn = self._random.standard_normal((len(factor), int(useless.sum())))
            factor[:, useless] = drawn
            self._make_orthogonal(factor)
        return factors

    def _make_orthogonal(self, columns: Array) -> None:
        """In place, column after column: length 1, and nothing in common with the ones before.

        What is a combination of those, or 0, becomes 0.
        """
        nothing = 4 * numpy.finfo(columns.dtype).eps  # what rounding leaves of a combination
        for i in range(columns.shape[1]):
            column, earlier = columns[:, i], columns[:, :i]
            before = numpy.sqrt((column * column).sum())
            for _ in range(2):  # the second time removes what the first has rounded into it
                column -= earlier @ (earlier.T @ column)
            length = numpy.sqrt((column * column).sum())
            if numpy.isfinite(before) and length <= before * nothing:
                column[...] = 0
            else:
                column /= length + self._epsilon


def _summed(arrays: list[Array], world: Group) -> list[Array]:
    row = numpy.concatenate([array.reshape(-1) for array in arrays])
    world.all_reduce(row)
    return _split(row, [array.shape for array in arrays])


def _split(row: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    """Views of `row`, one after the other."""
    parts, begin = [], 0
    for shape in shapes:
        end = begin + int(numpy.prod(shape))
        parts.append(row[begin:end].reshape(shape))
        begin = end
    return parts
