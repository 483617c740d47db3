"""Backends as objects: what carries out the operations of a group, also written in Python."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unisono._group import Group
from unisono._refusal import not_offered
from unisono.distributed._works import Work
from unisono.distributed._written import WrittenCalls, WrittenCore, method_name

if TYPE_CHECKING:
    from unisono._core import Store

DEFAULT_TIMEOUT = timedelta(minutes=30)


class ErrorType(IntEnum):
    """What is wrong with a backend, under torch's numbers."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    REMOTE_ERROR = 3


class _DistributedBackendOptions:
    """What a creator of Backend.register_backend(extended_api=True) is told."""

    __slots__ = (
        "global_ranks_in_group",
        "group_id",
        "group_rank",
        "group_size",
        "store",
        "timeout",
    )

    def __init__(self) -> None:
        self.store: Store | None = None
        self.group_rank = 0
        self.group_size = 0
        self.timeout = timedelta(0)
        self.group_id = ""
        self.global_ranks_in_group: list[int] = []


class BackendOptions:
    """What a backend was made with."""

    def __init__(self, backend: str, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self.backend = backend
        self._timeout = timeout
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.use_pg_for_symm_mem_rendezvous = False


class _Backend(WrittenCalls):
    """What carries out the operations of a group; to be derived from in Python.

        class Mine(dist._Backend):
            def allreduce(self, tensors, opts): ...   # gives a Work

        dist.Backend.register_backend("mine", lambda store, rank, size, timeout: Mine(rank, size),
                                      devices=["cpu"])

    Operations that the class does not define are refused.
    """

    Options: type[BackendOptions] = BackendOptions
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, rank: int, size: int) -> None:
        self._rank = int(rank)
        self._size = int(size)

    @cached_property
    def _group(self) -> Group:
        """This as a unisono.Group, for what works for such."""
        return Group(WrittenCore(self, self.name(), "", None))  # type: ignore[arg-type]

    @cached_property
    def options(self) -> BackendOptions:
        """What it was made with."""
        return BackendOptions(self.name())

    def _begin(self, operation: str, *call: Any, **told: Any) -> Work:  # noqa: ANN401 (as start())
        method = method_name(operation)
        kind = type(self).__name__
        raise not_offered(
            f"Backend {self.name()} does not support {method}", f"define {method}() in {kind}"
        )

    def get_error(self) -> ErrorType:
        """What is wrong with it, if anything."""
        return ErrorType.SUCCESS

    def supports_tensor_alloc(self, device: object) -> bool:
        """Whether allocate_tensor() is offered."""
        return False

    def allocate_tensor(self, size: int, *, dtype: object, device: object) -> object:
        """Memory that its operations handle better than any other."""
        raise not_offered(f"Backend {self.name()} does not support allocate_tensor")

    @property
    def mem_allocator(self) -> object:
        """Of graphics processors."""
        raise not_offered(f"Backend {self.name()} does not support mem_allocator")

    def eager_connect_single_device(self, device: object = None) -> None:
        """Connects before the first operation, where that is not so anyway."""

    def _get_backend_name(self) -> str:
        return self.name()

    def _get_sequence_number_for_group(self) -> int:
        raise not_offered(f"Backend {self.name()} does not support sequence numbers")

    def _start_coalescing(self) -> None:
        raise not_offered(f"Backend {self.name()} does not implement startCoalescing")

    def _end_coalescing(self) -> Work:
        raise not_offered(f"Backend {self.name()} does not implement endCoalescing")

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: operations are numbered from 1 on every rank."""
