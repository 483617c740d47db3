"""One training twice, in the same processes: by torch's DistributedDataParallel and by unisono.

Each side has a copy of the same module, gets the same inputs, and is asked for its gradients and
parameters after every step. What a case returns is compared by the tests, where it can be shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import unisono
import unisono.distributed as ours
from unisono.distributed._kinds import Backend
from unisono.distributed._state import ProcessGroup

CAP = 1024  # bytes at which a bucket is closed: most modules here have several
RATE = 0.125

# What is compared: a name, what unisono has, and what torch has.
Rows = list[tuple[str, Any, Any]]
# The loss of a step, given what is to be called as the module.
Loss = Callable[[int, Any], Any]


@dataclass(frozen=True)
class Ranks:
    """Some ranks, connected by both libraries, and the part of them to which this one belongs."""

    group: unisono.Group
    gloo: Any
    half: unisono.Group
    gloo_half: Any

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size


def array_of(tensor: Any) -> Any:
    """Its values as an array, in the same memory."""
    values = tensor.detach()
    if values.dtype == torch.bfloat16:
        return values.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return values.numpy()


def tensor_of(array: Any) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class Side:
    """A module that is trained."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.params = list(module.parameters())

    def backward(self, loss: Callable[[Any], Any], *, sync: bool = True) -> None:
        raise NotImplementedError

    def gradients(self) -> list[Any]:
        """Copies, by parameter; None for one that has none."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        raise NotImplementedError

    def values(self) -> list[Any]:
        return [array_of(param).copy() for param in self.params]

    def update(self) -> None:
        with torch.no_grad():
            for param, gradient in zip(self.params, self.gradients(), strict=True):
                if gradient is not None:
                    param.sub_(tensor_of(gradient), alpha=RATE)


class Theirs(Side):
    """By DistributedDataParallel over Gloo."""

    def __init__(
        self, module: nn.Module, ranks: Ranks, *, cap: int = CAP, hook: Any = None, **options: Any
    ) -> None:
        super().__init__(module)
        if "bucket_cap_mb_list" not in options:
            options["bucket_cap_mb"] = cap / 2**20
        self.ddp = DistributedDataParallel(module, process_group=ranks.gloo, **options)
        if isinstance(hook, tuple):
            self.ddp.register_comm_hook(*hook)
        elif hook is not None:
            self.ddp._register_builtin_comm_hook(hook)

    def backward(self, loss: Callable[[Any], Any], *, sync: bool = True) -> None:
        with nullcontext() if sync else self.ddp.no_sync():
            loss(self.ddp).backward()

    def gradients(self) -> list[Any]:
        grads = [param.grad for param in self.params]
        return [None if grad is None else array_of(grad).copy() for grad in grads]

    def zero_grad(self) -> None:
        self.ddp.zero_grad(set_to_none=True)

    def notes(self) -> dict[str, Any]:
        return dict(self.ddp._get_ddp_logging_data())


class Mine(Side):
    """By unisono.DataParallel, which autograd tells when a gradient is there."""

    def __init__(
        self, module: nn.Module, ranks: Ranks, *, cap: int = CAP, hook: Any = None, **options: Any
    ) -> None:
        super().__init__(module)
        caps: dict[str, Any] = {"bucket_bytes_cap": cap, "first_bucket_bytes_cap": cap}
        arrays = {name: array_of(value) for name, value in module.named_parameters()}
        self.model = unisono.DataParallel(arrays, ranks.group, hook=hook, **caps, **options)
        for index, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(partial(self._came, index))

    def _came(self, index: int, param: Any) -> None:
        self.model.ready(index, array_of(param.grad))

    def backward(self, loss: Callable[[Any], Any], *, sync: bool = True) -> None:
        with nullcontext() if sync else self.model.no_sync(), self.model.step():
            loss(self.module).backward()
        for param in self.params:
            param.grad = None

    def gradients(self) -> list[Any]:
        return [self.model.grad(index).copy() for index in range(len(self.params))]

    def zero_grad(self) -> None:
        self.model.zero_grad()

    def notes(self) -> dict[str, Any]:
        return self.model.logging_data()


class MineByReducer(Side):
    """By unisono.distributed.Reducer, called as DistributedDataParallel calls torch's."""

    def __init__(
        self,
        module: nn.Module,
        ranks: Ranks,
        *,
        cap: int = CAP,
        is_static: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(module)
        self._finds_unused = options.get("find_unused_parameters", False)
        arrays = [array_of(param) for param in self.params]
        limit = cap if self._finds_unused and not is_static else 2**62
        buckets, limits = ours._compute_bucket_assignment_by_size(arrays, [limit])
        group = ProcessGroup(
            ranks.group, Backend("unisono"), [*range(ranks.size)], ours.HashStore()
        )
        self.reducer = ours.Reducer(
            arrays,
            buckets[::-1],
            limits[::-1],
            group,
            bucket_bytes_cap=cap,
            first_bucket_bytes_cap=cap,
            **options,
        )
        self.logger = ours.Logger(self.reducer)
        self.logger.set_construction_data_and_log("", [], -1, False, False, is_static)
        if is_static:
            self.reducer._set_static_graph()
        for index, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(partial(self._came, index))

    def _came(self, index: int, param: Any) -> None:
        self.reducer.set_grad(index, array_of(param.grad))
        self.reducer._autograd_hook(index)

    def backward(self, loss: Callable[[Any], Any], *, sync: bool = True) -> None:
        if sync:
            self.logger.set_runtime_stats_and_log()
            self.reducer.prepare_for_forward()
        self.reducer._rebuild_buckets()
        found = loss(self.module)
        if sync:
            unused = self._unreached_from(found) if self._finds_unused else []
            self.reducer.prepare_for_backward([], unused=unused)
        found.backward()
        if sync:
            self.reducer.finish()

    def _unreached_from(self, loss: Any) -> list[int]:
        """Parameters on which it does not depend."""
        seen, left, reached = set(), [loss.grad_fn], set()
        while left:
            node = left.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            reached.add(id(getattr(node, "variable", None)))
            left += [following for following, _ in node.next_functions]
        return [index for index, param in enumerate(self.params) if id(param) not in reached]

    def gradients(self) -> list[Any]:
        grads = [self.reducer.grad(index) for index in range(len(self.params))]
        return [None if grad is None else grad.copy() for grad in grads]

    def zero_grad(self) -> None:
        for index, param in enumerate(self.params):
            param.grad = None
            self.reducer.set_grad(index, None)

    def notes(self) -> dict[str, Any]:
        data = self.logger._get_ddp_logging_data()
        return {**data.strs_map, **data.ints_map}


def both(module: nn.Module, ranks: Ranks, **options: Any) -> tuple[Mine, Theirs]:
    """Both sides, with the same options; each rank has parameters of its own at first."""
    mine = Mine(copy.deepcopy(module), ranks, **options)
    return mine, Theirs(module, ranks, **options)


def trained(
    mine: Side,
    theirs: Theirs,
    loss: Loss,
    steps: int = 4,
    *,
    first: int = 0,
    micro_batches: int = 1,
) -> Rows:
    """Gradients and parameters after each of some steps; of `micro_batches` each."""
    rows: Rows = []
    for step in range(first, first + steps):
        for side in (theirs, mine):
            side.zero_grad()
            for batch in range(micro_batches):
                number = step * micro_batches + batch
                side.backward(partial(loss, number), sync=batch == micro_batches - 1)
        rows.append(gradients_of(mine, theirs, f"gradients of step {step}"))
        for side in (theirs, mine):
            side.update()
        rows.append((f"parameters after step {step}", mine.values(), theirs.values()))
    return rows


def gradients_of(mine: Side, theirs: Side, name: str) -> tuple[str, Any, Any]:
    """DataParallel has no parameters without a gradient: what nobody used stays 0."""
    there = theirs.gradients()
    if isinstance(mine, Mine):
        values = theirs.values()
        there = [
            np.zeros_like(value) if grad is None else grad
            for grad, value in zip(there, values, strict=True)
        ]
    return name, mine.gradients(), there


def notes_of(mine: Mine | MineByReducer, theirs: Theirs, names: Sequence[str]) -> Rows:
    """Of what both note of a training, under the same names."""
    here, there = mine.notes(), theirs.notes()
    return [(name, here.get(name), there.get(name)) for name in names]
