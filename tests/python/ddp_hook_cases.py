"""Communication hooks of torch and of unisono.hooks that make the same of gradients.

torch's quantising hooks raise IndexError over Gloo, so there the arithmetic of its observers and
of the functions inside the hooks stands for them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

import unisono.distributed as ours
from tests.python.ddp_cases import case, scaled
from tests.python.ddp_modules import Scales
from tests.python.ddp_sides import Mine, Ranks, Rows, Theirs, array_of, trained
from unisono import hooks


def pair_of(
    module: Scales, ranks: Ranks, mine: Any, theirs: Any, **options: Any
) -> tuple[Mine, Theirs]:
    return (
        Mine(copy.deepcopy(module), ranks, hook=mine, **options),
        Theirs(module, ranks, hook=theirs, **options),
    )


def renamed(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """torch refuses hooks of some names on CPUs, where they work."""

    def another(state: Any, bucket: Any) -> Any:
        return hook(state, bucket)

    another.__annotations__ = {}  # it looks at these, too
    return another


BUILT_IN = dist.BuiltinCommHookType


@case("hook allreduce", mine=hooks.allreduce, theirs=default_hooks.allreduce_hook)
@case("hook float16", mine=hooks.fp16_compress, theirs=default_hooks.fp16_compress_hook)
@case("hook bfloat16", mine=hooks.bf16_compress, theirs=default_hooks.bf16_compress_hook)
@case("hook that does nothing", mine=lambda _: hooks.noop, theirs=debugging_hooks.noop_hook)
@case(
    "hook around a hook, float16",
    mine=lambda group: hooks.fp16_wrapper(hooks.allreduce(group)),
    theirs=default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
)
@case(
    "hook around a hook, bfloat16",
    mine=lambda group: hooks.bf16_wrapper(hooks.allreduce(group)),
    theirs=default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook),
)
def plain_hook(ranks: Ranks, mine: Callable[[Any], Any], theirs: Any) -> Rows:
    rows: Rows = []
    for views in (False, True):
        module = Scales((30, 20), (300,), (7,))
        given = mine(ranks.group), (ranks.gloo, renamed(theirs))
        sides = pair_of(module, ranks, *given, gradient_as_bucket_view=views)
        rows += trained(*sides, partial(scaled, ranks.rank), steps=3)
    return rows


@case("built-in hook allreduce", kind="ALLREDUCE")
@case("built-in hook float16", kind="FP16_COMPRESS")
def built_in_hook(ranks: Ranks, kind: str) -> Rows:
    kinds = getattr(ours.BuiltinCommHookType, kind), getattr(BUILT_IN, kind)
    sides = pair_of(Scales((30, 20), (300,), (7,)), ranks, *kinds)
    return trained(*sides, partial(scaled, ranks.rank), steps=3)


class DrawnAsInTorch:
    """Draws what torch's PowerSGD draws for its first factors, of `matrices` in one bucket."""

    def __init__(self, seed: int, matrices: int) -> None:
        self._seeds = np.random.RandomState(seed)
        self._matrices = matrices
        self._drawn = 0
        self._dice = torch.Generator()

    def standard_normal(self, shape: tuple[int, int]) -> Any:
        if self._drawn % self._matrices == 0:
            self._dice.manual_seed(int(self._seeds.randint(1_000_000_000)))
        self._drawn += 1
        return torch.randn(shape, generator=self._dice).numpy()


def power_sgd(ranks: Ranks, columns: int, feedback: bool, warm: bool) -> Rows:
    module = Scales((40, 30), (12, 50), (70,), (3, 4))
    mine = hooks.PowerSGD(
        ranks.group, rank=columns, start_iter=2, error_feedback=feedback, warm_start=warm
    )
    mine._random = DrawnAsInTorch(0, 2)  # type: ignore[assignment]
    state = powerSGD_hook.PowerSGDState(
        process_group=ranks.gloo,
        matrix_approximation_rank=columns,
        start_powerSGD_iter=2,
        use_error_feedback=feedback,
        warm_start=warm,
    )
    sides = pair_of(module, ranks, mine, (state, powerSGD_hook.powerSGD_hook), cap=1 << 20)
    rows = trained(*sides, partial(scaled, ranks.rank), steps=6)
    return [*rows, ("compression", list(mine.compression()), list(state.compression_stats()))]


for _columns in (1, 2, 4):
    for _feedback, _warm in ((True, True), (False, True), (True, False), (False, False)):
        case(
            f"PowerSGD of {_columns} columns, feedback {_feedback}, warm {_warm}",
            columns=_columns,
            feedback=_feedback,
            warm=_warm,
        )(power_sgd)


def rounded(values: Any) -> Any:
    """As torch's hook per tensor sends it."""
    observer = MinMaxObserver()
    observer(values)
    steps = observer.calculate_qparams()
    codes = quantization_hooks._quantize_per_tensor_backend(values, *steps)
    return quantization_hooks._dequantize_per_tensor_backend(codes, *steps)


def rounded_by_rows(values: Any) -> Any:
    """As torch's hook per channel sends it."""
    rows = torch.nn.functional.pad(values, (0, -len(values) % 512)).view(-1, 512)
    observer = PerChannelMinMaxObserver(ch_axis=0)
    observer(rows)
    steps = observer.calculate_qparams()
    codes = quantization_hooks._quantize_per_channel_backend(rows, *steps)
    sent = quantization_hooks._dequantize_per_channel_backend(codes, *steps)
    return sent.view(-1)[: len(values)]


@case("quantised per tensor", mine=hooks.quantize_per_tensor, theirs=rounded)
@case("quantised per channel", mine=hooks.quantize_per_channel, theirs=rounded_by_rows)
def quantised(ranks: Ranks, mine: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> Rows:
    module = Scales((1300,))
    side = Mine(module, ranks, hook=mine(ranks.group))
    rows: Rows = []
    for step in range(2):
        side.backward(partial(scaled, ranks.rank, step))
        sent = [theirs(module.inputs(rank, step)[0]) for rank in range(ranks.size)]
        expected = array_of(sum(sent) / ranks.size)
        rows.append((f"gradients of step {step}", side.gradients(), [expected]))
    return rows


@case("averages of a part of the ranks", later=True)
@case("no averages after a while", later=False)
def post_local_sgd(ranks: Ranks, later: bool) -> Rows:
    mine = hooks.PostLocalSGD(ranks.group, ranks.half, 2, average_later=later)
    state = post_localSGD_hook.PostLocalSGDState(ranks.gloo, ranks.gloo_half, 2, later)
    hook = (state, post_localSGD_hook.post_localSGD_hook)
    sides = pair_of(Scales((30, 20), (300,), (7,)), ranks, mine, hook)
    averagers = (
        hooks.PeriodicAverage(ranks.group, 2, 1),
        PeriodicModelAverager(2, 1, process_group=ranks.gloo),
    )
    rows: Rows = []
    for step in range(6):
        rows += trained(*sides, partial(scaled, ranks.rank), 1, first=step)
        averagers[0].average([array_of(param) for param in sides[0].params])
        averagers[1].average_parameters(sides[1].params)
        values = sides[0].values(), sides[1].values()
        rows.append((f"parameters after the averages of step {step}", *values))
    return rows
