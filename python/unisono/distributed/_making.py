"""How a group is made whose members meet at a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from unisono import _core
from unisono._group import Group
from unisono._refusal import refusal
from unisono._work import milliseconds
from unisono.distributed._backends import _Backend, _DistributedBackendOptions
from unisono.distributed._kinds import Backend, BackendType, Plugin, core_backend, plugin_of
from unisono.distributed._process_group import ProcessGroup

if TYPE_CHECKING:
    from unisono._core import Store

default_pg_timeout = timedelta(minutes=30)


@dataclass
class Plan:
    """What is known of a group before there is one."""

    name: str
    backend: Backend
    ranks: list[int]  # of the world, by rank in the group
    rank: int  # of this one, in the group
    store: Store
    timeout: timedelta | None
    pg_options: object = None

    def make(self) -> ProcessGroup:
        """The group, by unisono's backend or by what is registered under the name of its own."""
        plugin = plugin_of(self.backend)
        if plugin is not None:
            return self._made_by(plugin)
        core = _core.init_group(
            None,
            self.store,
            self.rank,
            len(self.ranks),
            self.name,
            core_backend(self.backend),
            milliseconds(self.timeout),
        )
        return ProcessGroup(Group(core), self.backend, self.ranks, self.store)

    def _made_by(self, plugin: Plugin) -> ProcessGroup:
        size = len(self.ranks)
        store = _core.PrefixStore(f"{self.name}/", self.store)
        timeout = default_pg_timeout if self.timeout is None else self.timeout
        if plugin.extended_api:
            made = plugin.creator_fn(self._options(store, timeout), self.pg_options)
        else:
            made = plugin.creator_fn(store, self.rank, size, timeout)
        if isinstance(made, _Backend):
            group = ProcessGroup(store, self.rank, size)
            group._register_backend("cpu", BackendType.CUSTOM, made)
        else:
            group = made
        if not isinstance(group, ProcessGroup):
            raise TypeError(
                f"the creator of backend '{self.backend}' must give a ProcessGroup or a _Backend, "
                f"not {type(made).__name__}"
            )
        if not hasattr(group, "_places"):
            kind = type(group).__name__
            raise TypeError(f"{kind}.__init__() must call super().__init__(rank, size)")
        group._enter(self.name, self.backend, self.ranks, self.store)
        return group

    def _options(self, store: Store, timeout: timedelta) -> _DistributedBackendOptions:
        options = _DistributedBackendOptions()
        options.store = store
        options.group_rank = self.rank
        options.group_size = len(self.ranks)
        options.timeout = timeout
        options.group_id = self.name
        options.global_ranks_in_group = list(self.ranks)
        return options


def plan_apart(
    parent: ProcessGroup,
    members: list[int],
    backend: Backend,
    timeout: timedelta,
    pg_options: object = None,
) -> Plan:
    """A group whose members, ranks of the world, meet at the store, without a word to others."""
    if len(set(members)) != len(members) or not set(members) <= set(parent._places):
        raise refusal(f"the ranks {members} are not all of the world, or one is named twice")
    # The same on all members, and another each time the same ranks make a group.
    before = parent._met_alone.get(tuple(members), 0)
    parent._met_alone[tuple(members)] = before + 1
    place = "_".join(str(rank) for rank in members)
    name = f"{parent.group_name}/local/{place}/{before}"
    rank = members.index(parent._ranks[parent.rank()])
    return Plan(name, backend, members, rank, parent.get_group_store(), timeout, pg_options)
