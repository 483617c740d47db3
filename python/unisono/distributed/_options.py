"""Arguments of a ProcessGroup's operations as c10d bundles them: AllreduceOptions and others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, ClassVar

from unisono.distributed._kinds import ReduceOp
from unisono.distributed._works import Work

# Torch's: the timeout of the group counts.
UNSET = timedelta(milliseconds=-1)


class Options:
    """What all of them have. `asyncOp` says nothing here: a Work is given in any case."""

    __slots__ = ("asyncOp", "timeout")
    ARGUMENTS: ClassVar[dict[str, str]] = {}
    """By the name of a method's argument, the field that it is given by."""

    def __init__(self) -> None:
        self.timeout = UNSET
        self.asyncOp = True

    def arguments(self) -> dict[str, Any]:
        """What they tell, as arguments of a method."""
        told = {argument: getattr(self, field) for argument, field in self.ARGUMENTS.items()}
        return told if self.timeout == UNSET else {**told, "timeout": self.timeout}


class _Reducing(Options):
    __slots__ = ("reduceOp",)
    ARGUMENTS: ClassVar[dict[str, str]] = {"op": "reduceOp"}

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp: Any = ReduceOp.SUM


class _Rooted(Options):
    __slots__ = ("rootRank",)
    ARGUMENTS: ClassVar[dict[str, str]] = {"root": "rootRank"}

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0


class AllToAllOptions(Options):
    """Of alltoall() and alltoall_base()."""

    __slots__ = ()


class AllgatherOptions(Options):
    """Of allgather() and its kinds."""

    __slots__ = ()


class AllreduceOptions(_Reducing):
    """Of allreduce()."""

    __slots__ = ()


class AllreduceCoalescedOptions(AllreduceOptions):
    """Of allreduce_coalesced()."""

    __slots__ = ()


class BarrierOptions(Options):
    """Of barrier(). There are no devices to choose from here."""

    __slots__ = ("device", "device_ids")

    def __init__(self) -> None:
        super().__init__()
        self.device_ids: list[int] = []
        self.device: object = None


class BroadcastOptions(_Rooted):
    """Of broadcast(); of its list the first array counts, whatever `rootTensor` says."""

    __slots__ = ("rootTensor",)

    def __init__(self) -> None:
        super().__init__()
        self.rootTensor = 0


class GatherOptions(_Rooted):
    """Of gather()."""

    __slots__ = ()


class ReduceOptions(_Reducing):
    """Of reduce(); of its list the first array counts, whatever `rootTensor` says."""

    __slots__ = ("rootRank", "rootTensor")
    ARGUMENTS: ClassVar[dict[str, str]] = {"op": "reduceOp", "root": "rootRank"}

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0
        self.rootTensor = 0


class ReduceScatterOptions(_Reducing):
    """Of reduce_scatter() and its kinds."""

    __slots__ = ()


class ScatterOptions(_Rooted):
    """Of scatter()."""

    __slots__ = ()


Method = Callable[..., Work]  # in two forms, which types cannot say shortly


def takes(kind: type[Options]) -> Callable[[Method], Method]:
    """Lets a method take options of that kind as its last argument, or as `opts`, instead."""

    def around(method: Method) -> Method:
        @wraps(method)
        def call(self: object, *given: Any, **named: Any) -> Work:  # noqa: ANN401 (as the method)
            options = named.pop("opts", None)
            if options is None and given and isinstance(given[-1], Options):
                *given, options = given  # type: ignore[assignment]
            if options is None:
                return method(self, *given, **named)
            if not isinstance(options, kind):
                wrong = type(options).__name__
                raise TypeError(f"{method.__name__}() takes {kind.__name__}, not {wrong}")
            return method(self, *given, **{**options.arguments(), **named})

        return call

    return around
