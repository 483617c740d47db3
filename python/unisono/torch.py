"""The backend "unisono" of torch.distributed.

    import torch.distributed as dist

    dist.init_process_group("unisono")

PyTorch finds it by itself; an import of this module is needed only where that is switched off
(TORCH_DEVICE_BACKEND_AUTOLOAD=0). What it offers and where it differs from gloo: docs/pytorch.md.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from unisono._torch_entry import register_now
from unisono._torch_memory import share_buffers

__all__ = ["create", "monitored_barrier", "set_timeout", "use_as_default"]

_REBUILD = "python -m unisono.torch build"


def __getattr__(name: str) -> Any:
    """Backend and Options, the classes of the extension: loaded when they are asked for."""
    if name in ("Backend", "Options"):
        return getattr(_extension(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def create(place: Any, options: Any = None) -> Any:
    """The backend for one group; torch.distributed calls it.

    `place` is its _DistributedBackendOptions. Of `options`, which are for the user to give, only
    the timeout counts.
    """
    plugin = _extension()
    share_buffers(plugin.Backend)
    timeout = place.timeout
    given = getattr(options, "_timeout", None)
    if given is not None and timeout == dist.distributed_c10d.default_pg_timeout:
        timeout = given
    return plugin.create(
        place.store,
        place.group_rank,
        place.group_size,
        timeout,
        place.group_id,
        list(place.global_ranks_in_group),
    )


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """dist.monitored_barrier(), which PyTorch itself lets only gloo have."""
    group = dist.group.WORLD if group is None else group
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        group.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)


def set_timeout(timeout: timedelta, group: Any = None) -> None:
    """How long operations of `group` that start from now on may take.

    PyTorch's own way to say so warns, and does nothing, for all backends but its own.
    """
    group = dist.group.WORLD if group is None else group
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        group.set_timeout(timeout)


def use_as_default(use: bool = True) -> None:
    """Makes this the backend of the CPU where none is named; or gloo again.

    That is init_process_group() and new_group() without a name, and init_device_mesh("cpu", …).
    """
    dist.Backend.default_device_backend_map["cpu"] = "unisono" if use else "gloo"


@functools.cache
def _extension() -> Any:
    """The extension, loaded: from then on the interpreter does not go before its groups."""
    _check_version()
    plugin: Any = importlib.import_module("unisono._torch")
    atexit.register(plugin.leave)
    return plugin


def _check_version() -> None:
    """Refuses a torch that the backend was not compiled for: its classes may look different."""
    try:
        built = Path(__file__).with_name("_torch.version").read_text().strip()
    except OSError:
        raise RuntimeError(
            "unisono: it was installed without its backend for PyTorch, since there was no torch "
            f"when it was built. DO: {_REBUILD}. [CONFIG]"
        ) from None
    if built.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise RuntimeError(
            f"unisono: its backend was built for torch {built}, and this is torch "
            f"{torch.__version__}. DO: {_REBUILD}. [CONFIG]"
        )


if __name__ == "__main__":
    from unisono._torch_build import main

    sys.exit(main())
register_now()
