"""Communication hooks: other ways to average a bucket of gradients, for DataParallel(hook=...).

    model = unisono.DataParallel(params, world, hook=unisono.hooks.PowerSGD(world, start_iter=10))

Each is made for the group whose ranks train together, and by all of them. What they send, of a
bucket of n float32 gradients in bytes, beside the 4 n of the plain average:

- fp16_compress, bf16_compress: 2 n. The first has more digits, the second float32's range.
- quantize_per_tensor, quantize_per_channel: n, to everybody else each.
- PowerSGD: of a matrix of a rows and b columns 4 r (a + b), for r = 1 or a few.
- PostLocalSGD: nothing to ranks outside a subgroup, after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy

from unisono import _core
from unisono._arrays import Array
from unisono._future import Future
from unisono._group import Group
from unisono._hooks import HookFunction, future_of
from unisono._power_sgd import PowerSGD
from unisono._refusal import refusal
from unisono._work import Work

__all__ = [
    "PeriodicAverage",
    "PostLocalSGD",
    "PowerSGD",
    "allreduce",
    "bf16_compress",
    "bf16_wrapper",
    "fp16_compress",
    "fp16_wrapper",
    "noop",
    "quantize_per_channel",
    "quantize_per_tensor",
]

Bucket = _core.GradBucket
DType: TypeAlias = "numpy.dtype[Any]"


def allreduce(world: Group) -> HookFunction:
    """The average, as without a hook."""
    return lambda bucket: world.all_reduce(bucket.buffer(), "avg", async_op=True)


def noop(bucket: Bucket) -> Future:
    """Every rank keeps its own gradients: to see what a step takes without communication."""
    return _done(bucket.buffer())


def fp16_compress(world: Group) -> HookFunction:
    """The average of the values as float16, whose largest is 65504."""
    return _compressed(world, lambda: numpy.dtype(numpy.float16))


def bf16_compress(world: Group) -> HookFunction:
    """The average of the values as bfloat16; needs the package ml_dtypes."""
    _bfloat16()
    return _compressed(world, _bfloat16)


def fp16_wrapper(hook: HookFunction) -> HookFunction:
    """`hook` gets the bucket as float16, and what it gives is converted back."""
    return _wrapped(hook, lambda: numpy.dtype(numpy.float16))


def bf16_wrapper(hook: HookFunction) -> HookFunction:
    """`hook` gets the bucket as bfloat16, and what it gives is converted back."""
    _bfloat16()
    return _wrapped(hook, _bfloat16)


def quantize_per_tensor(world: Group) -> HookFunction:
    """The average of values that are rounded to one of 256 steps between the least and the most."""

    def reduce(bucket: Bucket) -> Future:
        return _quantized(world, bucket.buffer(), bucket.buffer().size)

    return reduce


def quantize_per_channel(world: Group, bucket_size: int = 512) -> HookFunction:
    """The same with steps of their own for every `bucket_size` values."""
    if bucket_size < 1:
        raise refusal(f"bucket_size is {bucket_size}, but at least one value has the same steps")
    return lambda bucket: _quantized(world, bucket.buffer(), bucket_size)


class PostLocalSGD:
    """Averages over `world` for the first `start_iter` steps, then over `subgroup` only.

    The ranks of different subgroups drift apart from then on: average the parameters now and then
    (PeriodicAverage). Without `average_later` not even the subgroup is averaged over.
    """

    def __init__(
        self, world: Group, subgroup: Group, start_iter: int = 100, *, average_later: bool = True
    ) -> None:
        self._world = world
        self._subgroup = subgroup
        self._start_iter = start_iter
        self._average_later = average_later
        self.iter = 0

    def __call__(self, bucket: Bucket) -> Future:
        is_early = self.iter < self._start_iter
        if is_early and bucket.is_last():
            self.iter += 1
        if not is_early and not self._average_later:
            return noop(bucket)
        by = self._world if is_early else self._subgroup
        return _later(by.all_reduce(bucket.buffer(), "avg", async_op=True))


class PeriodicAverage:
    """Averages parameters over `world` every `period` steps, after `warmup_steps` of them.

    For ranks that do not average every gradient: call average() after each step of the optimizer.
    """

    def __init__(self, world: Group, period: int, warmup_steps: int = 0) -> None:
        if period < 1:
            raise refusal(f"period is {period}, but the shortest one is 1: after every step")
        if warmup_steps < 0:
            raise refusal(f"warmup_steps is {warmup_steps}, but cannot be less than 0")
        self._world = world
        self._period = period
        self._warmup_steps = warmup_steps
        self.step = 0

    def average(self, params: Mapping[str, Array] | Sequence[Array]) -> bool:
        """Counts a step; whether the parameters were averaged, in place, after it."""
        since, self.step = self.step - self._warmup_steps, self.step + 1
        if since < 0 or since % self._period != 0:
            return False
        arrays = params.values() if isinstance(params, Mapping) else params
        for work in [self._world.all_reduce(each, "avg", async_op=True) for each in arrays]:
            work.wait()
        return True


def _later(work: Work[Array]) -> Future:
    return work.get_future()


def _done(array: Array) -> Future:
    future = Future()
    future.set_result(array)
    return future


def _bfloat16() -> DType:
    try:
        import ml_dtypes
    except ImportError as missing:
        raise refusal(
            "bfloat16 needs the package ml_dtypes, which is not installed", "pip install ml_dtypes"
        ) from missing
    found: DType = numpy.dtype(ml_dtypes.bfloat16)
    return found


def _compressed(world: Group, dtype: Callable[[], DType]) -> HookFunction:
    def reduce(bucket: Bucket) -> Future:
        whole = bucket.buffer()
        short = (whole / world.size).astype(dtype())  # divided first: the sum may be out of range

        def expand(done: Future) -> Array:
            whole[...] = done.value()
            return whole

        return _later(world.all_reduce(short, async_op=True)).then(expand)

    return reduce


def _wrapped(hook: HookFunction, dtype: Callable[[], DType]) -> HookFunction:
    def reduce(bucket: Bucket) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.astype(dtype()))

        def expand(done: Future) -> Array:
            value = done.value()
            whole[...] = value[0] if isinstance(value, list) else value
            return whole

        return future_of(hook(bucket)).then(expand)

    return reduce


def _quantized(world: Group, whole: Array, row: int) -> Future:
    """The average of what all ranks have rounded, `row` values at a time.

    The steps travel with the values in one message, so each bucket is one operation.
    """
    rows = -(-whole.size // row) if whole.size else 0
    values = numpy.zeros((rows, row), numpy.float32)
    values.reshape(-1)[: whole.size] = whole
    least = numpy.minimum(values.min(axis=1, initial=0), 0)
    most = numpy.maximum(values.max(axis=1, initial=0), 0)
    step = numpy.maximum((most - least) / 255, numpy.finfo(numpy.float32).eps)
    zero = numpy.clip(-numpy.rint(least / step), 0, 255)
    rounded = numpy.clip(numpy.rint(values / step[:, None]) + zero[:, None], 0, 255)
    head = numpy.stack([step, zero]).astype(numpy.float32).view(numpy.uint8).reshape(-1)
    message = numpy.concatenate([head, rounded.astype(numpy.uint8).reshape(-1)])

    def average(done: Future) -> Array:
        total = numpy.zeros((rows, row), numpy.float32)
        for one in done.value().reshape(world.size, -1):
            steps, zeros = one[: head.size].copy().view(numpy.float32).reshape(2, rows)
            codes = one[head.size :].reshape(rows, row).astype(numpy.float32)
            total += steps[:, None] * (codes - zeros[:, None])
        whole[...] = total.reshape(-1)[: whole.size] / world.size
        return whole

    return _later(world.all_gather_single(message, async_op=True)).then(average)
