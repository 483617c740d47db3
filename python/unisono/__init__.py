"""unisono: your processes find each other, and never hang without saying why.

The stores are in unisono.distributed, under the names of torch.distributed:

    from unisono.distributed import TCPStore
"""

from unisono._core import version as __version__

__all__ = ["__version__"]
