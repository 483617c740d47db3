"""Makes the backend "unisono" known to torch.distributed; loads nothing but Python's own.

PyTorch calls register() at the end of every `import torch` on this machine, which an exception
would break: it tells nobody of what goes wrong. The backend itself is loaded when the first group
is made, and says then what is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers only; typing itself takes milliseconds to import
if TYPE_CHECKING:
    from typing import Any

NAME = "unisono"


def register() -> None:
    """What PyTorch calls."""
    import contextlib  # PyTorch has loaded it already

    with contextlib.suppress(Exception):
        register_now()


def register_now() -> None:
    """The same, for those who want to know: raises what goes wrong. A second call does nothing."""
    import torch.distributed as dist

    if not dist.is_available() or NAME in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    # PyTorch 2.13 looks for the name as it is among keys in capitals, and takes the first: without
    # this a group of "cpu:unisono" has no default backend.
    plugins = dist.Backend._plugins
    if NAME not in plugins:
        dist.Backend._plugins = {NAME: plugins[NAME.upper()], **plugins}


def _create(place: Any, options: Any) -> Any:
    """The backend of a group that torch.distributed makes."""
    from unisono.torch import create

    return create(place, options)
