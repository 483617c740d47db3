"""Trainings that end alike with torch's DistributedDataParallel and with unisono; see ddp_sides.py.

Each case is called with the ranks that it is for; ddp_driver.py does that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.python.ddp_modules import Branches, Scales, Twice, inputs, network
from tests.python.ddp_sides import (
    CAP,
    Mine,
    MineByReducer,
    Ranks,
    Rows,
    Side,
    Theirs,
    both,
    notes_of,
    trained,
)

Case = Callable[[Ranks], Rows]
CASES: dict[str, Case] = {}

NOTES = """
    num_parameter_tensors total_parameter_size_bytes dtypes bucket_sizes has_rebuilt_buckets
    rebuilt_bucket_sizes rebuilt_per_bucket_param_indices num_buckets_reduced bucket_cap_bytes
    prev_iteration_grad_ready_order_indices unused_parameter_size find_unused_parameters
    gradient_as_bucket_view world_size rank iteration
""".split()


def case(name: str, **options: Any) -> Callable[[Callable[..., Rows]], Callable[..., Rows]]:
    """The function, called with the ranks and the options, is the case of that name."""

    def add(function: Callable[..., Rows]) -> Callable[..., Rows]:
        CASES[name] = partial(function, **options)
        return function

    return add


def squares(rank: int, step: int, model: Any) -> Any:
    return model(inputs(rank, step)).square().sum()


@case("buckets of copies", gradient_as_bucket_view=False)
@case("buckets that are gradients", gradient_as_bucket_view=True)
def several_buckets(ranks: Ranks, **options: Any) -> Rows:
    mine, theirs = both(network(), ranks, **options)
    rows = trained(mine, theirs, partial(squares, ranks.rank))
    assert len(mine.model.buckets()) > 2
    return rows + notes_of(mine, theirs, NOTES)


@case("buckets by a list of limits")
def limits(ranks: Ranks) -> Rows:
    module = network()
    caps = [CAP // 8, CAP // 2, 8 * CAP]
    views = {"gradient_as_bucket_view": False}
    mine = Mine(copy.deepcopy(module), ranks, bucket_bytes_cap_list=caps, cap=max(caps), **views)
    theirs = Theirs(module, ranks, bucket_cap_mb_list=[cap / 2**20 for cap in caps], **views)
    return trained(mine, theirs, partial(squares, ranks.rank)) + notes_of(mine, theirs, NOTES)


@case("one bucket", cap=1 << 20)
@case("batched copies", batched_grad_copy=True)
def by_reducer(ranks: Ranks, cap: int = CAP, **options: Any) -> Rows:
    theirs = Theirs(network(), ranks, cap=cap, **options)
    mine = MineByReducer(copy.deepcopy(theirs.module), ranks, cap=cap, **options)
    rows = trained(mine, theirs, partial(squares, ranks.rank))
    return rows + notes_of(mine, theirs, NOTES[3:8])


def scaled(rank: int, step: int, model: Any) -> Any:
    module = getattr(model, "module", model)
    return model(module.inputs(rank, step))


def of_types(ranks: Ranks, types: list[Any], **options: Any) -> Rows:
    module = Scales((3, 5), (300,), (), (0,), (2, 40), types=types)
    mine, theirs = both(module, ranks, **options)
    rows = trained(mine, theirs, partial(scaled, ranks.rank), steps=3)
    if len(types) > 1:
        return rows  # in which order torch closes the last buckets of several types is chance
    return rows + notes_of(mine, theirs, ["rebuilt_per_bucket_param_indices"])


for _name in ("float64", "float16", "bfloat16", "complex64", "complex128"):
    for _views in (False, True):
        case(
            f"{_name}, {'views' if _views else 'copies'}",
            types=[getattr(torch, _name)],
            gradient_as_bucket_view=_views,
        )(of_types)
case("two types in one model", types=[torch.float32, torch.float64])(of_types)
case("16-bit beside 32-bit", types=[torch.float32, torch.float16])(of_types)


def layouts(ranks: Ranks, **options: Any) -> Rows:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten())
    module = module.to(memory_format=torch.channels_last)
    mine, theirs = both(module, ranks, **options)

    def loss(step: int, model: Any) -> Any:
        return model(inputs(ranks.rank, step, 3 * 5 * 5).view(8, 3, 5, 5)).square().sum()

    return trained(mine, theirs, loss, steps=3)


case("channels last, copies", gradient_as_bucket_view=False)(layouts)
case("channels last, views", gradient_as_bucket_view=True)(layouts)


# Which layers rank 0 uses in each step, and the others; c is for nobody.
USES = [("ab", "ab"), ("ab", "a"), ("b", "a"), ("a", "a"), ("bab", "b")]


def branches(ranks: Ranks, uses: list[tuple[str, str]], step: int, model: Any) -> Any:
    names = uses[step % len(uses)][min(ranks.rank, 1)]
    return model(inputs(ranks.rank, step, 16), names).square().sum()


@case("unused parameters, copies", gradient_as_bucket_view=False)
@case("unused parameters, views", gradient_as_bucket_view=True)
def unused(ranks: Ranks, **options: Any) -> Rows:
    mine, theirs = both(Branches(), ranks, find_unused_parameters=True, **options)
    rows = trained(mine, theirs, partial(branches, ranks, USES), steps=len(USES))
    return rows + notes_of(mine, theirs, NOTES)


@case("unused parameters by a Reducer, copies", gradient_as_bucket_view=False)
@case("unused parameters by a Reducer, views", gradient_as_bucket_view=True)
def unused_by_reducer(ranks: Ranks, **options: Any) -> Rows:
    theirs = Theirs(Branches(), ranks, find_unused_parameters=True, **options)
    mine = MineByReducer(
        copy.deepcopy(theirs.module), ranks, find_unused_parameters=True, **options
    )
    here, there = mine.reducer, theirs.ddp.reducer
    rows: Rows = []
    for step in range(len(USES)):
        rows += trained(mine, theirs, partial(branches, ranks, USES), 1, first=step)
        used = here._get_local_used_map().tolist(), there._get_local_used_map().tolist()
        rows.append((f"by how many ranks each was used in step {step}", used[0], used[1]))
        is_static = here._ddp_graph_static(), there._ddp_graph_static()
        rows.append((f"whether the graph is static after step {step}", *is_static))
    return rows


@case("buckets that nobody uses are skipped, copies", gradient_as_bucket_view=False)
@case("buckets that nobody uses are skipped, views", gradient_as_bucket_view=True)
def skipped(ranks: Ranks, **options: Any) -> Rows:
    options |= {"find_unused_parameters": True, "skip_all_reduce_unused_params": True}
    theirs = Theirs(Branches(), ranks, **options)
    mine = MineByReducer(copy.deepcopy(theirs.module), ranks, **options)
    rows = trained(mine, theirs, partial(branches, ranks, [("ab", "ab"), ("a", "a")]), steps=4)
    return rows + notes_of(mine, theirs, ["num_buckets_reduced", "unused_parameter_size"])


@case("unused parameters in several batches", find_unused_parameters=True)
@case("several batches, views", gradient_as_bucket_view=True)
@case("several batches, copies", gradient_as_bucket_view=False)
def batches(ranks: Ranks, **options: Any) -> Rows:
    mine, theirs = both(Branches(), ranks, **options)
    uses = USES if "find_unused_parameters" in options else [("abc", "cab")]
    return trained(mine, theirs, partial(branches, ranks, uses), steps=3, micro_batches=3)


@case("several batches by a Reducer")
def batches_by_reducer(ranks: Ranks) -> Rows:
    theirs = Theirs(network(), ranks)
    mine = MineByReducer(copy.deepcopy(theirs.module), ranks)
    return trained(mine, theirs, partial(squares, ranks.rank), steps=3, micro_batches=3)


@case("static graph, copies", gradient_as_bucket_view=False)
@case("static graph, views", gradient_as_bucket_view=True)
def static(ranks: Ranks, **options: Any) -> Rows:
    mine, theirs = both(Branches(), ranks, static_graph=True, **options)
    rows = trained(mine, theirs, partial(branches, ranks, [("aba", "aba")]), steps=5)
    return rows + notes_of(mine, theirs, NOTES[5:7])


@case("static graph of which ranks use parts")
def static_of_parts(ranks: Ranks) -> Rows:
    mine, theirs = both(Branches(), ranks, static_graph=True)
    return trained(mine, theirs, partial(branches, ranks, [("ab", "ba"), ("ba", "ab")]), steps=4)


@case("static graph with gradients in two parts")
def checkpointed(ranks: Ranks) -> Rows:
    theirs = Theirs(Twice(), ranks, static_graph=True)
    mine = MineByReducer(copy.deepcopy(theirs.module), ranks, is_static=True)

    def loss(step: int, model: Any) -> Any:
        return model(inputs(ranks.rank, step).requires_grad_()).square().sum()

    return trained(mine, theirs, loss, steps=4)


def shadowed(ranks: Ranks, by_all: bool, **options: Any) -> Rows:
    """Ranks make 4, 1 and 2 steps."""
    mine, theirs = both(network(), ranks, **options)
    seen: dict[Side, list[list[Any]]] = {mine: [], theirs: []}
    for side, join in ((theirs, theirs.ddp.join), (mine, mine.model.join)):
        with join(divide_by_initial_world_size=by_all):
            for step in range([4, 1, 2][ranks.rank]):
                side.zero_grad()
                side.backward(partial(squares, ranks.rank, step))
                seen[side].append(side.gradients())
                side.update()
    return [
        *((f"step {at}", *pair) for at, pair in enumerate(zip(*seen.values(), strict=True))),
        ("parameters at the end", mine.values(), theirs.values()),
    ]


for _by_all in (True, False):
    case(f"uneven inputs, by all {_by_all}", by_all=_by_all)(shadowed)
    case(f"uneven inputs in views, by all {_by_all}", by_all=_by_all, gradient_as_bucket_view=True)(
        shadowed
    )
case("uneven inputs and unused ones", by_all=True, find_unused_parameters=True)(shadowed)
