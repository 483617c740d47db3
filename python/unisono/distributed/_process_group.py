"""ProcessGroup: ranks that work together, by unisono's backend or by what a program has written."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unisono import _core
from unisono._group import Group
from unisono._refusal import not_offered, refusal
from unisono._work import milliseconds
from unisono.distributed._backends import _Backend
from unisono.distributed._group_facts import GroupFacts, kind_of
from unisono.distributed._kinds import Backend, BackendType
from unisono.distributed._native_backends import NativeBackend
from unisono.distributed._native_calls import NativeCalls
from unisono.distributed._works import Work
from unisono.distributed._written import WrittenCalls, WrittenCore

if TYPE_CHECKING:
    from unisono._core import Store


class ProcessGroup(GroupFacts, WrittenCalls):
    """Ranks that work together: what init_process_group(), new_group() and the like make.

    A program may derive from it and define operations under the names they have here. Those that
    it does not define are done by what _register_backend() has given for the CPU.
    """

    BackendType = BackendType
    UNDEFINED = BackendType.UNDEFINED
    GLOO = BackendType.GLOO
    NCCL = BackendType.NCCL
    UCC = BackendType.UCC
    MPI = BackendType.MPI
    XCCL = BackendType.XCCL
    CUSTOM = BackendType.CUSTOM

    def __new__(cls, *given: Any, **named: Any) -> ProcessGroup:  # noqa: ANN401 (as __init__)
        """Of a Group of unisono's: one whose operations go straight to that."""
        is_native = cls is ProcessGroup and given and isinstance(given[0], Group)
        return super().__new__(NativeGroup if is_native else cls)

    def __init__(
        self,
        *given: Any,  # noqa: ANN401 (in two forms)
        rank: int | None = None,
        size: int | None = None,
        store: Store | None = None,
    ) -> None:
        """ProcessGroup(rank, size), or ProcessGroup(store, rank, size)."""
        told = list(given)
        if told and not isinstance(told[0], int):
            store = told.pop(0)
        rank = told.pop(0) if told else rank
        size = told.pop(0) if told else size
        if told or rank is None or size is None:
            raise TypeError("ProcessGroup() takes (rank, size), or (store, rank, size)")
        self._rank = int(rank)
        self._size = int(size)
        if not 0 <= self._rank < self._size:
            raise refusal(f"rank {rank} is none of a group of {size}")
        self._enter("", Backend(Backend.UNDEFINED), list(range(self._size)), store)

    def _enter(self, name: str, backend: Backend, ranks: list[int], store: Store | None) -> None:
        """Takes its place among the groups of this process."""
        self._name = name
        self._backend = backend
        self._ranks = ranks  # by rank in the group, the rank in the world
        self._places = {rank: place for place, rank in enumerate(ranks)}
        self._store = store
        self._met_alone: dict[tuple[int, ...], int] = {}  # how often these have made a group
        if not hasattr(self, "_backends"):
            self._backends: dict[str, _Backend] = {}  # by device
            self._desc = "undefined"
            self._watches: list[_core.CompletionWatch] = []  # of completion hooks

    @cached_property
    def _group(self) -> Group:  # type: ignore[override]
        """This as a unisono.Group, for what works for such."""
        core = WrittenCore(self, self._name, self.group_desc, self._store)
        return Group(core)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<unisono.distributed.ProcessGroup {self._name!r} of ranks {self._ranks}>"

    @property
    def group_name(self) -> str:
        """The name under which errors speak of it."""
        return str(self._told("getGroupName", self._name))

    @property
    def group_desc(self) -> str:
        """What was said of it when it was made."""
        return self._desc

    @property
    def bound_device_id(self) -> None:
        """None: the memory is the CPU's."""
        return None

    def name(self) -> str:
        """The name of its backend."""
        backend = self._backends.get("cpu")
        known = str(self._backend) if backend is None else backend.name()
        return str(self._told("getBackendName", known))

    def get_group_store(self) -> Store:
        """The store at which the ranks of the world have met."""
        if self._store is None:
            raise refusal("this group has been destroyed, or made without a store: it has none")
        return self._store

    def _register_backend(
        self, device: object, backend_type: int, backend: _Backend | None = None
    ) -> None:
        """From here on `backend` does what this group is asked for on that kind of device."""
        if backend is None:
            return
        if not isinstance(backend, _Backend):
            raise TypeError(f"backend must be a _Backend, not {type(backend).__name__}")
        if (backend.rank(), backend.size()) != (self.rank(), self.size()):
            raise refusal(
                f"a backend for rank {backend.rank()} of {backend.size()} is not for "
                f"rank {self.rank()} of {self.size()}"
            )
        self._backends[kind_of(device)] = backend

    def _begin(self, *call: Any, **told: Any) -> Work:  # noqa: ANN401 (as start())
        backend = self._backends.get("cpu")
        if backend is None:
            kind = type(self).__name__
            raise refusal(
                "No backend type associated with device type cpu",
                f"define the operation in {kind}, or give a backend by _register_backend()",
            )
        work: Work = backend.start(*call, **told)
        return work

    def _offers(self, operation: str) -> bool:
        backend = self._backends.get("cpu")
        return super()._offers(operation) or (backend is not None and backend._offers(operation))

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: object = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: object = None,
    ) -> ProcessGroup | None:
        """A group of `ranks` of this one, where the class says how."""
        raise not_offered(f"Backend {self.name()} is missing implementation of split")

    def abort(self) -> None:
        """Fails what is under way and all that comes later."""
        for backend in self._backends.values():
            backend.abort()

    def shutdown(self) -> None:
        """Ends it in order."""
        for backend in self._backends.values():
            backend.shutdown()
        self._let_go()

    def _let_go(self) -> None:
        """Nobody asks for it any more: its threads end, the store's port may be used again."""
        if "_group" in vars(self):
            self._group._leave()
        self._watches = []
        self._store = None


class NativeGroup(NativeCalls, ProcessGroup):
    """What init_process_group() makes by unisono's own backend."""

    def __init__(self, group: Group, backend: Backend, ranks: list[int], store: Store) -> None:
        NativeCalls.__init__(self, group)
        self._enter(group.name, backend, ranks, store)

    def name(self) -> str:
        """The name of its backend."""
        return str(self._backend)

    @cached_property
    def _own_backend(self) -> NativeBackend:  # type: ignore[override]
        """What does its operations."""
        return NativeBackend(self._group, self.name())

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: object = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: object = None,
    ) -> ProcessGroup | None:
        """A group of `ranks` of this one; None outside it. Every rank calls it."""
        most = milliseconds(timeout)
        core = self._group._core.split_group([list(ranks)], most, group_desc or "", False)
        if core is None:
            return None
        members = [self._ranks[rank] for rank in ranks]
        made = ProcessGroup(Group(core), self._backend, members, self.get_group_store())
        made._set_group_desc(group_desc or f"{self._desc}:split")
        if group_name is not None:
            made._set_group_name(group_name)
        return made

    def shutdown(self) -> None:
        """Ends it in order, and lets go of the store."""
        try:
            super().shutdown()
        finally:
            self._let_go()


NativeGroup.__name__ = NativeGroup.__qualname__ = "ProcessGroup"  # which it is to its users
