"""Backends that are carried out in C++, as objects."""

from __future__ import annotations

from typing import Any

from unisono import _core
from unisono._group import Group
from unisono._refusal import refusal
from unisono.distributed._backends import BackendOptions, ErrorType, _Backend
from unisono.distributed._native_calls import NativeCalls
from unisono.distributed._works import Work


class NativeBackend(NativeCalls, _Backend):
    """What a Group of unisono's does its operations by."""

    def __init__(self, group: Group, name: str) -> None:
        NativeCalls.__init__(self, group)
        self._backend_name = name
        self._batch: _core.Coalescing | None = None  # that is open

    def name(self) -> str:
        """Of the backend."""
        return self._backend_name

    def _offers(self, operation: str) -> bool:
        return True

    def _get_sequence_number_for_group(self) -> int:
        return _core.sequence_number(self._group._handle)

    def _start_coalescing(self) -> None:
        self._batch = _core.Coalescing(self._group._handle)

    def _end_coalescing(self) -> Work:
        if self._batch is None:
            raise refusal("there is no coalescing scope to end", "call _start_coalescing() first")
        batch, self._batch = self._batch, None
        return Work(batch.end(), [])


class FakeOptions(BackendOptions):
    """Of a FakeProcessGroup."""

    def __init__(self) -> None:
        super().__init__("fake")
        self.fake_option = 0
        self.error_on_collective = False


class FakeProcessGroup(NativeBackend):
    """One process that pretends to be a rank of many, for tests and dry runs.

    Operations have ended when their call returns; what would come from others is made up of what
    this rank gives.
    """

    Options = FakeOptions

    def __init__(self, rank: int, world_size: int, options: FakeOptions | None = None) -> None:
        told = FakeOptions() if options is None else options
        core = _core.fake_group(rank, world_size, told.fake_option, told.error_on_collective)
        super().__init__(Group(core), "fake")
        self._told_options = told

    @staticmethod
    def _create_internal(
        rank: int, world_size: int, options: FakeOptions | None = None
    ) -> FakeProcessGroup:
        return FakeProcessGroup(rank, world_size, options)

    @property
    def options(self) -> FakeOptions:
        """What it was made with."""
        return self._told_options


class _ProcessGroupWrapper(NativeBackend):
    """A backend around another, in which ranks compare calls before they begin.

    They do so by the other's all_gather_single; where it has none, by the store of `gloo_pg`.
    """

    def __init__(self, backend: _Backend, gloo_backend: Any = None) -> None:  # noqa: ANN401
        if not isinstance(backend, _Backend):
            raise TypeError(f"backend must be a _Backend, not {type(backend).__name__}")
        store = getattr(gloo_backend, "_store", None)
        core = _core.checked_group(backend._group._handle, store)
        super().__init__(Group(core), backend.name())
        self._wrapped = backend

    @property
    def wrapped_pg(self) -> _Backend:
        """What is wrapped."""
        return self._wrapped

    @property
    def options(self) -> BackendOptions:
        """Those of what is wrapped."""
        return self.wrapped_pg.options

    def get_error(self) -> ErrorType:
        """That of what is wrapped."""
        return self.wrapped_pg.get_error()
