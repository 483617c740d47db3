"""The cases in PyTorch's wheel for its own backends, opened for one that it does not know.

They are meant for backends by name: sets of names, skipped functions, comparisons in the middle of
a case. All of that is opened from outside; nothing of PyTorch is changed on disk, and no case is.
"""

from __future__ import annotations

import importlib
import os
import unittest
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# What a backend must be listed in for cases that a CPU can run.
FEATURES = ("ddp", "subgroup", "gpu", "cuda", "plugin")

# Why cases are skipped for a backend that PyTorch does not know, though it can do what they need.
OPENED = (
    "Only gloo backend supports timeouts",
    "GLOO Batch Send Recv CPU",
    "to be one of {'gloo'}",
    "Only Gloo backend supports sparse all reduce",
    "Only MPI supports CPU all_to_all_single",
    "Only MPI supports all_to_all",
    "get_future is only supported",
)

# Cases that build a model only for the backends they know by name.
NEEDS_KNOWN_NAME = "test_accumulate_gradients_no_sync"

# How many cases run, by ranks: fewer would be a proof of less. With PyTorch 2.13 and no GPU.
RUN_BY_RANKS = {3: 124, 4: 127, 8: 124}

# What cannot pass, and why.
EXPECTED = {
    "test_ddp_logging_data_cpu": 'wants its name, where DDP has "custom" for every plug-in',
}


def cases(backend: str, ranks: int, folder: str) -> type[unittest.TestCase]:
    """A class with all cases; for one backend and number of ranks in a process."""
    # Read when the modules are imported. Where cases meet anew they do so by this file.
    os.environ.update(
        BACKEND=backend, WORLD_SIZE=str(ranks), INIT_METHOD=f"file://{folder}/another_meeting"
    )
    common: Any = importlib.import_module("torch.testing._internal.common_distributed")
    is_ours = backend == "unisono"
    if is_ours:
        importlib.import_module("unisono.torch")
        for feature in FEATURES:
            common.DistTestCases.backend_feature[feature].add(backend)
    module: Any = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    base = module.DistributedTest._DistTestBase
    if is_ours:
        _open(backend, module, base)
    for name, case in vars(base).items():
        if name.startswith("test_") and _needs_gpu(case) and not _is_skipped(case):
            case.__unittest_skip__, case.__unittest_skip_why__ = True, "needs a GPU"
    return _forked(module, base, is_ours)


def _open(backend: str, module: Any, base: Any) -> None:
    for case in vars(base).values():
        if any(reason in getattr(case, "__unittest_skip_why__", "") for reason in OPENED):
            case.__unittest_skip__ = False
    module.PROFILING_SUPPORTED_BACKENDS.append(backend)
    module.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append(backend)
    dist.monitored_barrier = _monitored_barrier


def _monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """PyTorch's refuses every backend but gloo."""
    import unisono.torch

    unisono.torch.monitored_barrier(group, timeout, wait_all_ranks)


def _is_skipped(case: Any) -> bool:
    return bool(getattr(case, "__unittest_skip__", False))


def _wrapped(case: Any) -> Iterator[Any]:
    """The function itself, and what its decorators have made of it."""
    while case is not None:
        yield case
        case = getattr(case, "__wrapped__", None)


def _needs_gpu(case: Any) -> bool:
    codes = (getattr(each, "__code__", None) for each in _wrapped(case))
    makers = {code.co_qualname.split(".")[0] for code in codes if code is not None}
    return bool(makers & {"skip_if_no_gpu", "skip_if_lt_x_gpu"})


def _forked(module: Any, base: Any, is_ours: bool) -> type[unittest.TestCase]:
    class Cases(module.TestDistBackend, base):  # type: ignore[misc]
        """Ranks are forked: what was opened here is open there, and nothing is imported again."""

        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank: int, test_name: str, file_name: str, pipe: Any, **more: Any) -> None:
            torch.set_num_threads(1)
            os.environ["BACKEND"] = "mpi"  # its small worlds are not skipped
            super()._run(rank, test_name, file_name, pipe, **more)

        def run_test(self, test_name: str, parent_pipe: Any) -> None:
            if is_ours and test_name.startswith(NEEDS_KNOWN_NAME):
                module.BACKEND = "mpi"
            super().run_test(test_name, parent_pipe)

        def _check_return_codes(self, fn: Any, elapsed_time: float) -> None:
            super()._check_return_codes(fn, elapsed_time)
            if fn not in self.skip_return_code_checks:
                codes = {process.exitcode for process in self.processes}
                assert len(codes) == 1, f"ranks ended differently: {codes}"

    return Cases
