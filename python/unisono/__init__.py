"""unisono: your processes find each other, and never hang without saying why.

The stores are in unisono.distributed, under the names of torch.distributed:

    from unisono.distributed import TCPStore
"""

from __future__ import annotations

from unisono._core import version as __version__

TYPE_CHECKING = False  # for type checkers only; typing itself takes milliseconds to import
if TYPE_CHECKING:
    from types import ModuleType

    from unisono import distributed

__all__ = ["__version__", "distributed"]


def __getattr__(name: str) -> ModuleType:
    """Loads unisono.distributed when it is asked for."""
    if name == "distributed":
        import importlib

        return importlib.import_module("unisono.distributed")
    raise AttributeError(f"module 'unisono' has no attribute {name!r}")
