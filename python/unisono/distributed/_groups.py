"""Making and ending groups, and what can be asked of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unisono import _core
from unisono._group import Group
from unisono._last_words import leave_last_words
from unisono._refusal import refusal
from unisono._work import milliseconds
from unisono.distributed import _registry
from unisono.distributed._kinds import Backend, core_backend, is_known, plugin_of
from unisono.distributed._making import Plan, default_pg_timeout, plan_apart
from unisono.distributed._process_group import NativeGroup
from unisono.distributed._state import (
    NON_GROUP_MEMBER,
    ProcessGroup,
    check_timeout,
    default_group,
    group_rank_of,
    is_outside,
    registered,
    world,
)
from unisono.distributed._written import own_method
from unisono.distributed.rendezvous import rendezvous

if TYPE_CHECKING:
    from unisono._core import Store

Subgroup = Any
"""A ProcessGroup, or what a rank that is not in it gets."""

# How often this process has had a world: ranks that meet again at the same store meet at a place
# of their own each time.
_worlds = 0


def is_available() -> bool:
    """Always: there is nothing to be left out when unisono is built."""
    return True


def is_backend_available(backend: str) -> bool:
    """Whether init_process_group() takes that name."""
    return is_known(backend)


def is_gloo_available() -> bool:
    """True: "gloo" is a name by which unisono's own backend can be had."""
    return True


def is_mpi_available() -> bool:
    """True: "mpi" is a name by which unisono's own backend can be had."""
    return True


def is_ucc_available() -> bool:
    """True: "ucc" is a name by which unisono's own backend can be had."""
    return True


def is_nccl_available() -> bool:
    """False: arrays are in the memory of the CPU."""
    return False


def is_xccl_available() -> bool:
    """False: arrays are in the memory of the CPU."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun, or a launcher that says so as it does, has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_initialized() -> bool:
    """Whether there is a default group."""
    return world.default is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
    _ranks: list[int] | None = None,
) -> None:
    """Meets the other ranks, and makes the default group of them.

    They meet at `store`, else at `init_method` (env://, tcp://host:port, file:///path). What torch
    has for devices (`pg_options`, `device_id`) says nothing here.
    """
    global _worlds
    if world.default is not None:
        raise refusal("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    check_timeout(timeout)
    name = Backend(backend or Backend.UNISONO)
    inner = core_backend(name)
    if store is not None:
        _check_place(rank, world_size)
    elif inner == "fake":
        store = _core.FakeStore()
        _check_place(rank, world_size)
    else:
        wait = {} if timeout is None else {"timeout": timeout}
        store, rank, world_size = next(
            rendezvous(init_method or "env://", rank, world_size, **wait)
        )
    leave_last_words()
    called = "default_pg" if _worlds == 0 else f"default_pg_{_worlds + 1}"
    plan = Plan(called, name, list(range(world_size)), rank, store, timeout, pg_options)
    world.default = plan.make()
    _worlds += 1
    world.default._set_group_desc("default_pg")
    world.groups = [world.default]
    world.made = 1
    _registry.note(world.default)


def _check_place(rank: int, world_size: int) -> None:
    if world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if rank < 0:
        raise AssertionError("rank must be non-negative if using store")


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group in order; the default one with all that were made out of it."""
    if is_outside(group):
        return
    ending = world.default if group is None else group
    if ending is None:
        raise AssertionError("Process group cannot be None")
    if ending not in world.groups:
        raise refusal("Invalid process group specified")
    if ending is not world.default:
        world.groups.remove(ending)
        _registry.forget(ending)
        try:
            ending.shutdown()
        finally:
            ending._let_go()
        return
    groups, world.groups, world.default, world.made = world.groups, [], None, 0
    errors = []
    for each in reversed(groups):  # the default group is the last to go
        _registry.forget(each)
        try:
            each.shutdown()
        except Exception as error:
            errors.append(error)
        each._let_go()
    if errors:
        raise errors[0]


def get_rank(group: ProcessGroup | None = None) -> int:
    """The rank of this process in the group; -1 when it is not in it."""
    if is_outside(group):
        return -1
    return default_group().rank() if group is None else registered(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many ranks the group has; -1 when this is not in it."""
    if is_outside(group):
        return -1
    return default_group().size() if group is None else registered(group).size()


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name by which the group's backend was asked for."""
    if is_outside(group):
        raise refusal("Invalid process group specified")
    return (default_group() if group is None else registered(group))._backend


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The name of the group's backend, as "cpu:name"."""
    name = str(get_backend(group))
    return name if ":" in name else f"cpu:{name}"


def get_default_backend_for_device(device: object) -> str:
    """That of the CPU; there is none for other devices."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise refusal(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in the group of a rank of the world."""
    return group_rank_of(registered(group), global_rank, None)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a rank in the group."""
    ranks = registered(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise refusal(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks in the world of the group's members, by their rank in it."""
    return list((default_group() if group is None else registered(group))._ranks)


def get_pg_count() -> int:
    """How many groups were made since init_process_group(), that of it included."""
    return world.made


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among those of this host, as the launcher says in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise refusal("LOCAL_RANK is not in the environment; pass fallback_rank to do without it")


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> Subgroup:
    """A group of `ranks` of the world, or of all. Every rank of the world calls it.

    With `use_local_synchronization` only the members do. Who is not in it gets
    GroupMember.NON_GROUP_MEMBER, or None with `use_local_synchronization`.
    """
    parent = default_group()
    check_timeout(timeout)
    name = _backend_like(parent, backend)
    members = list(range(parent.size())) if ranks is None else list(ranks)
    if sort_ranks:
        members.sort()
    if use_local_synchronization and parent.rank() not in members:
        return None
    if not members:
        return NON_GROUP_MEMBER
    most = default_pg_timeout if timeout is None else timeout
    world.made += 1
    if use_local_synchronization or not _splits(parent, name):
        if parent.rank() not in members:
            return NON_GROUP_MEMBER
        plan = plan_apart(parent, members, name, most, pg_options)
        return _registered_new(plan.make(), group_desc)
    core = parent._group._core.split_group(
        [members], milliseconds(most), group_desc or "", sort_ranks
    )
    if core is None:
        return NON_GROUP_MEMBER
    made = ProcessGroup(Group(core), name, members, parent.get_group_store())
    return _registered_new(made, group_desc)


def _backend_like(parent: ProcessGroup, backend: str | None) -> Backend:
    """The name of a new group's backend. One that is fake meets nobody."""
    name = Backend(backend) if backend else parent._backend
    if (core_backend(name) == "fake") != (core_backend(parent._backend) == "fake"):
        raise refusal(f"a group of backend '{name}' cannot be made out of '{parent._backend}'")
    return name


def _splits(parent: ProcessGroup, backend: Backend) -> bool:
    """Whether a group of that backend is made by the parent's own; others meet at the store."""
    return isinstance(parent, NativeGroup) and plugin_of(backend) is None


def _registered_new(group: ProcessGroup, desc: str | None) -> ProcessGroup:
    group._set_group_desc(desc or "undefined")
    world.groups.append(group)
    _registry.note(group)
    return group


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[Subgroup, list[Subgroup]]:
    """Groups of `group_size` neighbours each; gives the one this is in, and all."""
    if group_size is None:
        raise refusal("group_size has no default without devices; pass it")
    if group_size <= 0:
        raise refusal(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise refusal(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size != 0:
        raise refusal(f"The world size ({size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    lists = [ranks[at : at + group_size] for at in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[Subgroup, list[Subgroup]]:
    """A group for each list of ranks; gives the one this is in, or None, and all."""
    if not ranks_per_subgroup_list:
        raise refusal("The arg 'ranks_per_subgroup_list' cannot be empty")
    where: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in where:
                raise refusal(f"Rank {rank} has appeared in both {where[rank]} and {ranks}")
            where[rank] = ranks
    mine = None
    groups = []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if get_rank() in ranks:
            mine = made
    return mine, groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """The group that this is in, of one for each list of ranks of the parent; None outside.

    Every rank of the parent calls it.
    """
    if not split_ranks:
        raise refusal("split_ranks cannot be None or empty")
    parent = default_group() if parent_pg is None else registered(parent_pg)
    check_timeout(timeout)
    name = _backend_like(parent, backend)
    lists = [sorted(ranks) for ranks in split_ranks]
    most = default_pg_timeout if timeout is None else timeout
    mine = next((ranks for ranks in lists if parent.rank() in ranks), [])
    world.made += 1
    if not _splits(parent, name):
        members = [get_global_rank(parent, rank) for rank in mine]
        if not members:
            return None
        if split := own_method(parent, "split_group", ProcessGroup):
            made = split(mine, timeout=most, opts=pg_options, group_desc=group_desc)
            made._enter(made._name, name, members, parent.get_group_store())
            return _registered_new(made, group_desc)
        plan = plan_apart(parent, members, name, most, pg_options)
        return _registered_new(plan.make(), group_desc)
    core = parent._group._core.split_group(lists, milliseconds(most), group_desc or "", True)
    if core is None:
        return None
    members = [get_global_rank(parent, rank) for rank in mine]
    made = ProcessGroup(Group(core), name, members, parent.get_group_store())
    return _registered_new(made, group_desc)
