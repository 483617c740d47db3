"""What operations are told and what they give: ReduceOp, Backend, Work and its Future."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from typing import Any, ClassVar

from unisono import _work as base
from unisono._errors import DistError, DistTimeoutError
from unisono._future import Future
from unisono._refusal import refusal

NO_TIMEOUT = timedelta(0)
"""As torch writes it: a wait without limit."""


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

    def __init__(self, op: Op, factor: float = 1.0) -> None:
        self.op = RedOpType(op)
        self.factor = factor


def make_premul_sum(factor: float) -> ReduceOp:
    """The sum of what was multiplied by `factor`, which may differ from rank to rank."""
    return ReduceOp(RedOpType.PREMUL_SUM, float(factor))


_NAMES = {op: op.name for op in RedOpType}


def plain(op: object) -> object:
    """A reduction as the extension takes it."""
    if type(op) is RedOpType:
        return _NAMES[op]
    if type(op) is ReduceOp:
        return _NAMES[op.op] if op.op != RedOpType.PREMUL_SUM else ("premul_sum", op.factor)
    return op


# What is asked for by these names is done by unisono, in the memory of the CPU.
_FOR_THE_CPU = ("unisono", "gloo", "mpi", "ucc", "undefined")


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

    __slots__ = ()

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise refusal("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


def on_cpu(backend: str) -> str | None:
    """The part of "gloo" or "cpu:gloo,cuda:nccl" that is for the CPU; None without one."""
    parts = [part.strip().rpartition(":") for part in backend.lower().split(",")]
    return next((name for device, _, name in parts if device in ("", "cpu")), None)


def is_known(backend: str) -> bool:
    """Whether groups can be had by that name."""
    return on_cpu(backend) in (*_FOR_THE_CPU, "fake")


def core_backend(backend: str) -> str:
    """The backend of the extension that does what is asked for."""
    name = on_cpu(backend)
    if name == "fake":
        return "fake"
    if name not in _FOR_THE_CPU:
        raise refusal(
            f"backend '{backend}' does not work in the memory of the CPU",
            "ask for 'unisono', or 'gloo', which means the same here",
        )
    return "unisono"


class Work(base.Work[list[Any]]):
    """An operation under way, of async_op=True. Its result is the list of arrays it writes to."""

    __slots__ = ()

    def wait(self, timeout: timedelta | float | None = NO_TIMEOUT) -> bool:
        """Waits until it has ended, and raises what it failed with; timedelta(0) is no limit."""
        return self._work.wait(-1 if timeout == NO_TIMEOUT else base.milliseconds(timeout))

    def exception(self, timeout: timedelta | float | None = None) -> DistError | None:
        """What it failed with; None while it is under way, or when it ended well."""
        return super().exception(timeout) if self.is_completed() else None

    def synchronize(self) -> None:
        """As wait(): there is no stream to be put in order."""
        self.wait()

    def get_future_result(self) -> Future:
        """A Future of how it has ended, as a number of WorkResult: it never fails itself."""
        future = Future()
        self.add_done_callback(lambda _: future.set_result(int(self._outcome())))
        return future

    def _outcome(self) -> WorkResult:
        error = self.exception()
        if error is None:
            return WorkResult.SUCCESS
        timed_out = isinstance(error, DistTimeoutError)
        return WorkResult.TIMEOUT if timed_out else WorkResult.COMM_ERROR

    def _source_rank(self) -> int:
        return self.source_rank()
