"""unisono: your processes find each other, and never hang without saying why.

    world = unisono.init()           # who this is: arguments, or what the launcher has said
    world.all_reduce(array)          # of NumPy, PyTorch, array.array, bytearray; in place

The stores are in unisono.distributed, under the names of torch.distributed:

    from unisono.distributed import TCPStore
"""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers only; typing itself takes milliseconds to import
if TYPE_CHECKING:
    from unisono import distributed, testing
    from unisono._core import version as __version__
    from unisono._group import Group, init, premul_sum
    from unisono._work import Work

__all__ = ["Group", "Work", "__version__", "distributed", "init", "premul_sum", "testing"]

_HOMES = {
    "Group": "unisono._group",
    "Work": "unisono._work",
    "init": "unisono._group",
    "premul_sum": "unisono._group",
}


def __getattr__(name: str) -> object:
    """Loads what is asked for: an import of unisono alone is quick."""
    import importlib

    if name == "__version__":
        from unisono._core import version

        return version
    if name in ("distributed", "testing"):
        return importlib.import_module(f"unisono.{name}")
    if name in _HOMES:
        found: object = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'unisono' has no attribute {name!r}")
