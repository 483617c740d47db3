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
    _give_groups_their_default(dist.distributed_c10d)


def _create(place: Any, options: Any) -> Any:
    """The backend of a group that torch.distributed makes."""
    from unisono.torch import create

    return create(place, options)


def _give_groups_their_default(c10d: Any) -> None:
    """Lets groups have the default backend that their string says.

    As soon as any plug-in is registered, PyTorch 2.13 leaves groups of "cpu:gloo" without one,
    and for groups without a string it takes gloo, whatever the default of the CPU is.
    """
    import functools

    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def make_with_default(*args: Any, **more: Any) -> Any:
        made = make(*args, **more)
        if made[0] is not c10d.GroupMember.NON_GROUP_MEMBER:
            _mend_default(c10d, made[0])
        return made

    c10d._new_process_group_helper = make_with_default


def _mend_default(c10d: Any, group: Any) -> None:
    """Sets the default of a group that has none, or one that it has no backend of."""
    known = group.name()
    if known not in ("undefined", "gloo"):
        return
    config = c10d._world.pg_backend_config.get(group, "")
    names = {pair.partition(":")[2] for pair in config.split(",")}
    kinds = group.BackendType
    is_custom = any(c10d.Backend.backend_type_map.get(name) == kinds.CUSTOM for name in names)
    if known == "undefined" or (is_custom and "gloo" not in names):
        group._set_default_backend(kinds.CUSTOM if is_custom else kinds.GLOO)
