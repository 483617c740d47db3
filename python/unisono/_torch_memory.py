"""Lets DDP and FSDP2 keep what they send in memory that all ranks of a host reach.

Both can ask a group's backend for memory, and neither does so by itself. A user's own choice stays:
DDP_DISABLE_COMM_MEM for DDP, set_allocate_memory_from_process_group_for_comm() for FSDP2.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FSDP = "torch.distributed.fsdp._fully_shard._fsdp_param_group"


@functools.cache
def share_buffers(kind: type) -> None:
    """For groups whose backend is of this kind, from now on."""
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")  # PyTorch asks at every bucket
    loaded = sys.modules.get(_FSDP)
    if loaded is None:  # most programs never load it, and it takes a second
        sys.meta_path.insert(0, _FSDPFinder(kind))
    else:
        _share_in_fsdp(loaded, kind)


class _FSDPFinder:
    """Comes by when FSDP2 is imported, once."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != _FSDP:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_share(module: ModuleType) -> None:
                run(module)
                _share_in_fsdp(module, self.kind)

            spec.loader.exec_module = run_and_share  # type: ignore[method-assign]
        return spec


def _share_in_fsdp(module: ModuleType, kind: type) -> None:
    """Every group of parameters that is made takes its buffers from its process groups."""
    parameters = getattr(module, "FSDPParamGroup", None)
    if parameters is None:  # of another PyTorch
        return
    make = parameters.__init__

    @functools.wraps(make)
    def make_and_share(self: Any, *args: Any, **more: Any) -> None:
        make(self, *args, **more)
        with contextlib.suppress(AssertionError, AttributeError, RuntimeError):
            groups = (self._all_gather_process_group, self._reduce_scatter_process_group)
            if all(isinstance(group._get_backend(self.device), kind) for group in groups):
                self.set_allocate_memory_from_process_group(True)

    parameters.__init__ = make_and_share
