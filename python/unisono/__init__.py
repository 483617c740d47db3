"""unisono: your processes find each other, and never hang without saying why.

    world = unisono.init()           # who this is: arguments, or what the launcher has said
    world.all_reduce(array)          # of NumPy, PyTorch, array.array, bytearray; in place

The stores are in unisono.distributed, under the names of torch.distributed:

    from unisono.distributed import TCPStore
"""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers only; typing itself takes milliseconds to import
if TYPE_CHECKING:
    from unisono import distributed, functional, hooks, testing
    from unisono._core import version as __version__
    from unisono._data_parallel import DataParallel
    from unisono._errors import (
        AbortedError,
        DistAuthError,
        DistBackendError,
        DistError,
        DistNetworkError,
        DistStoreError,
        DistTimeoutError,
        MismatchError,
        NotSupportedError,
        PeerDeadError,
        QueueEmptyError,
        StoreValueError,
        UsageError,
    )
    from unisono._future import Future
    from unisono._group import Group, init
    from unisono._operations import P2POp, premul_sum
    from unisono._sparse import SparseGradient
    from unisono._work import Work
    from unisono.testing import local_world

__all__ = [
    "AbortedError",
    "DataParallel",
    "DistAuthError",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "DistTimeoutError",
    "Future",
    "Group",
    "MismatchError",
    "NotSupportedError",
    "P2POp",
    "PeerDeadError",
    "QueueEmptyError",
    "SparseGradient",
    "StoreValueError",
    "UsageError",
    "Work",
    "__version__",
    "distributed",
    "functional",
    "hooks",
    "init",
    "local_world",
    "premul_sum",
    "testing",
]

_HOMES = {
    "DataParallel": "unisono._data_parallel",
    "Future": "unisono._future",
    "Group": "unisono._group",
    "P2POp": "unisono._operations",
    "SparseGradient": "unisono._sparse",
    "Work": "unisono._work",
    "init": "unisono._group",
    "local_world": "unisono.testing",
    "premul_sum": "unisono._operations",
    **{name: "unisono._errors" for name in __all__ if name.endswith("Error")},
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Loads what is asked for: an import of unisono alone is quick."""
    import importlib

    if name == "__version__":
        from unisono._core import version

        return version
    if name in ("distributed", "functional", "hooks", "testing"):
        return importlib.import_module(f"unisono.{name}")
    if name in _HOMES:
        found: object = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'unisono' has no attribute {name!r}")
