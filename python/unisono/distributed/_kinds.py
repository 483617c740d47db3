"""What operations are told and what they say: ReduceOp, Backend, and the results of works."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from unisono._refusal import refusal

Op = Any
"""A reduction: one of ReduceOp's constants, or a ReduceOp."""


class RedOpType(IntEnum):
    """The reductions, under torch's numbers."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class WorkResult(IntEnum):
    """How an operation has ended, under torch's numbers."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    UNKNOWN = 100


class BackendType(IntEnum):
    """The kinds of backends that c10d knows, under torch's numbers."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    UCC = 3
    MPI = 4
    XCCL = 5
    CUSTOM = 6


class OpType(IntEnum):
    """The operations, under torch's numbers."""

    BROADCAST = 0
    ALLREDUCE = 1
    ALLREDUCE_COALESCED = 2
    REDUCE = 3
    ALLGATHER = 4
    _ALLGATHER_BASE = 5
    ALLGATHER_COALESCED = 6
    GATHER = 7
    SCATTER = 8
    REDUCE_SCATTER = 9
    ALLTOALL_BASE = 10
    ALLTOALL = 11
    SEND = 12
    RECV = 13
    RECVANYSOURCE = 14
    BARRIER = 15
    _REDUCE_SCATTER_BASE = 16
    COALESCED = 17
    _ALLREDUCE_SPARSE = 18
    REDUCE_SCATTER_TENSOR_COALESCED = 19
    ALLGATHER_INTO_TENSOR_COALESCED = 20  # which torch's bindings leave out
    UNKNOWN = 100


@dataclass(frozen=True, slots=True)
class WorkInfo:
    """What is told of an operation that has ended."""

    op_type: OpType
    seq: int
    time_started: datetime
    time_finished: datetime
    active_duration: timedelta


class _ReduceOpMeta(type):
    """Its constants are of a type of their own, but count as instances, as in torch."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, RedOpType) or type.__instancecheck__(cls, instance)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How the contributions of several ranks become one."""

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    __slots__ = ("_factor", "_op")

    def __init__(self, op: Op, factor: float = 1.0) -> None:
        self._op = RedOpType(op)
        self._factor = factor

    @property
    def op(self) -> int:
        """Which of the constants it is."""
        return self._op

    @property
    def factor(self) -> float:
        """Of PREMUL_SUM."""
        if self._op != RedOpType.PREMUL_SUM:
            raise refusal("Only PREMUL_SUM supports accessing factor")
        return self._factor

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self._op == other
        return self._op == other._op if type(other) is ReduceOp else NotImplemented

    def __hash__(self) -> int:
        return hash(self._op)


def make_premul_sum(factor: float) -> ReduceOp:
    """The sum of what was multiplied by `factor`, which may differ from rank to rank."""
    return ReduceOp(RedOpType.PREMUL_SUM, float(factor))


_NAMES = {op: op.name for op in RedOpType}


def plain(op: object) -> object:
    """A reduction as the extension takes it."""
    if type(op) is RedOpType:
        return _NAMES[op]
    if type(op) is ReduceOp:
        return _NAMES[op._op] if op._op != RedOpType.PREMUL_SUM else ("premul_sum", op.factor)
    return op


def reduction(op: Op) -> Op:
    """The other way: one of ReduceOp, also where it is called by its name."""
    if isinstance(op, str):
        return RedOpType[op.upper()]
    return make_premul_sum(op[1]) if isinstance(op, tuple) else op


# What is asked for by these names is done by unisono, in the memory of the CPU.
_FOR_THE_CPU = ("unisono", "gloo", "mpi", "ucc", "undefined")


class Plugin(NamedTuple):
    """What makes the backends, or groups, of a name that the program has registered."""

    creator_fn: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """The name of a backend, in lower case. Those of torch that run on the CPU mean unisono's."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    UNISONO = "unisono"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, UNISONO]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": UNISONO}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        name: ["cpu"] for name in (GLOO, UCC, MPI, FAKE, UNISONO)
    }
    backend_type_map: ClassVar[dict[str, BackendType]] = {
        UNDEFINED: BackendType.UNDEFINED,
        GLOO: BackendType.GLOO,
        NCCL: BackendType.NCCL,
        XCCL: BackendType.XCCL,
        UCC: BackendType.UCC,
        MPI: BackendType.MPI,
        FAKE: BackendType.CUSTOM,
        UNISONO: BackendType.CUSTOM,
    }
    _plugins: ClassVar[dict[str, Plugin]] = {}  # by the name in upper case

    __slots__ = ()

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise refusal("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:
        """Lets groups be made by that name: `func(store, rank, size, timeout)` gives a backend.

        That is what derives from _Backend, or from ProcessGroup, which is then the group itself.
        With `extended_api` it is `func(options, pg_options)`, with _DistributedBackendOptions.
        """
        known, upper = name.lower(), name.upper()
        if known in Backend.backend_list and upper not in Backend._plugins:
            raise refusal(f"a backend '{known}' comes with unisono", "register another name")
        if not callable(func):
            raise TypeError(f"func must make a backend, which {type(func).__name__} cannot")
        if devices is None:
            warnings.warn(
                f"Device capability of {name} unspecified, assuming `cpu`. Please specify it via "
                "the `devices` argument of `register_backend`.",
                stacklevel=2,
            )
        setattr(Backend, upper, known)
        if known not in Backend.backend_list:
            Backend.backend_list.append(known)
        places = ["cpu"] if devices is None else [devices] if isinstance(devices, str) else devices
        for device in places:
            Backend.default_device_backend_map.setdefault(device, known)
        Backend.backend_capability[known] = list(places)
        Backend.backend_type_map[known] = BackendType.CUSTOM
        Backend._plugins[upper] = Plugin(func, extended_api)


def on_cpu(backend: str) -> str | None:
    """The part of "gloo" or "cpu:gloo,cuda:nccl" that is for the CPU; None without one."""
    parts = [part.strip().rpartition(":") for part in backend.lower().split(",")]
    return next((name for device, _, name in parts if device in ("", "cpu")), None)


def plugin_of(backend: str) -> Plugin | None:
    """What makes groups of that name, where the program has registered it for the CPU."""
    name = on_cpu(backend)
    if name is None or "cpu" not in Backend.backend_capability.get(name, ()):
        return None
    return Backend._plugins.get(name.upper())


def is_known(backend: str) -> bool:
    """Whether groups can be had by that name."""
    return on_cpu(backend) in (*_FOR_THE_CPU, "fake") or plugin_of(backend) is not None


def core_backend(backend: str) -> str:
    """The backend of the extension that does what is asked for; that of a plugin is its name."""
    name = on_cpu(backend)
    if name is not None and plugin_of(backend) is not None:
        return name
    if name == "fake":
        return "fake"
    if name not in _FOR_THE_CPU:
        raise refusal(
            f"backend '{backend}' does not work in the memory of the CPU",
            "ask for 'unisono', or 'gloo', which means the same here",
        )
    return "unisono"
