"""Groups and backends whose operations are methods of a Python class, under c10d's names.

    class Mine(dist.ProcessGroup):
        def allreduce(self, tensors, opts): ...   # gives a Work

All calls come here: those of the functions of unisono.distributed, with the arrays that the program
has passed; those of a unisono.Group; and, by the extension, those that C++ makes.
"""

from __future__ import annotations

from array import array as plain_array
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from unisono import _core
from unisono._refusal import not_offered
from unisono.distributed import _options
from unisono.distributed._group_calls import Array, GroupCalls, Timeout
from unisono.distributed._kinds import Op, ReduceOp, reduction
from unisono.distributed._works import Work

if TYPE_CHECKING:
    from unisono.distributed._options import Options


class Call(NamedTuple):
    """One operation, as NativeCalls.start() is told of it."""

    operation: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    op: Op = ReduceOp.SUM
    root: int = -1
    peer: int = -1
    tag: int = 0
    async_op: bool = True
    timeout: Timeout = None
    input_splits: Sequence[int] = ()
    output_splits: Sequence[int] = ()


class _Form(NamedTuple):
    """How c10d calls an operation: the names of its method, its options, and what comes first."""

    names: tuple[str, ...]
    options: type[Options] | None
    arguments: Callable[[Call], tuple[Any, ...]]


def _in_place(call: Call) -> tuple[Any, ...]:
    return (list(call.outputs),)


def _one_to_one(call: Call) -> tuple[Any, ...]:
    return call.outputs[0], call.inputs[0]


def _lists(call: Call) -> tuple[Any, ...]:
    return list(call.outputs), list(call.inputs)


def _nested(arrays: Sequence[Array]) -> list[list[Array]]:
    """One list for each device of this process, which has one; none for who has no arrays."""
    return [list(arrays)] if arrays else []


def _cut(arrays: Sequence[Array], lengths: Sequence[int]) -> list[list[Array]]:
    left = iter(arrays)
    return [[next(left) for _ in range(length)] for length in lengths]


# As torch 2.13 calls them: where a method has two names, the newer is looked for first.
_FORMS = {
    "all_reduce": _Form(("allreduce",), _options.AllreduceOptions, _in_place),
    "all_reduce_coalesced": _Form(
        ("allreduce_coalesced",), _options.AllreduceCoalescedOptions, _in_place
    ),
    "broadcast": _Form(("broadcast",), _options.BroadcastOptions, _in_place),
    "reduce": _Form(("reduce",), _options.ReduceOptions, _in_place),
    "all_gather": _Form(
        ("allgather",),
        _options.AllgatherOptions,
        lambda call: (_nested(call.outputs), list(call.inputs)),
    ),
    "all_gather_coalesced": _Form(
        ("allgather_coalesced",),
        _options.AllgatherOptions,
        lambda call: (_cut(call.outputs, call.output_splits), list(call.inputs)),
    ),
    "all_gather_single": _Form(
        ("all_gather_single", "_allgather_base"), _options.AllgatherOptions, _one_to_one
    ),
    "all_gather_single_coalesced": _Form(
        ("all_gather_single_coalesced", "allgather_into_tensor_coalesced"),
        _options.AllgatherOptions,
        _lists,
    ),
    "gather": _Form(
        ("gather",),
        _options.GatherOptions,
        lambda call: (_nested(call.outputs), list(call.inputs)),
    ),
    "scatter": _Form(
        ("scatter",),
        _options.ScatterOptions,
        lambda call: (list(call.outputs), _nested(call.inputs)),
    ),
    "reduce_scatter": _Form(
        ("reduce_scatter",),
        _options.ReduceScatterOptions,
        lambda call: (list(call.outputs), _nested(call.inputs)),
    ),
    "reduce_scatter_single": _Form(
        ("reduce_scatter_single", "_reduce_scatter_base"),
        _options.ReduceScatterOptions,
        _one_to_one,
    ),
    "reduce_scatter_single_coalesced": _Form(
        ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"),
        _options.ReduceScatterOptions,
        _lists,
    ),
    "all_to_all": _Form(("alltoall",), _options.AllToAllOptions, _lists),
    "all_to_all_single": _Form(
        ("all_to_all_single", "alltoall_base"),
        _options.AllToAllOptions,
        lambda call: (*_one_to_one(call), list(call.output_splits), list(call.input_splits)),
    ),
    "send": _Form(("send",), None, lambda call: (list(call.inputs), call.peer, call.tag)),
    "recv": _Form(("recv",), None, lambda call: (list(call.outputs), call.peer, call.tag)),
    "recv_anysource": _Form(("recv_anysource",), None, lambda call: (list(call.outputs), call.tag)),
    "barrier": _Form(("barrier",), _options.BarrierOptions, lambda _: ()),
}


def method_name(operation: str) -> str:
    """What c10d calls the method of an operation."""
    return _FORMS[operation].names[0]


def own_method(target: object, name: str, base: type = GroupCalls) -> Callable[..., Any] | None:
    """The method of that name, if the program's class, or the object, has one of its own."""
    ours = getattr(base, name, None)
    of_class = getattr(type(target), name, None)
    if of_class is ours and name not in getattr(target, "__dict__", ()):
        return None
    method: Callable[..., Any] = getattr(target, name)
    return method


def _options_of(kind: type[Options], call: Call) -> Options:
    told = {"op": reduction(call.op), "root": call.root}
    options = kind()
    for argument, field in kind.ARGUMENTS.items():
        setattr(options, field, told[argument])
    if call.timeout is not None:
        options.timeout = call.timeout
    options.asyncOp = call.async_op
    return options


class WrittenCalls(GroupCalls):
    """What a class that is derived in Python does by its own methods.

    As in c10d it may also have getRank(), getSize() and getBackendName(), which rank(), size() and
    name() ask.
    """

    _rank: int
    _size: int

    def rank(self) -> int:
        """The rank of this process in the group."""
        return int(self._told("getRank", self._rank))

    def size(self) -> int:
        """How many ranks the group has."""
        return int(self._told("getSize", self._size))

    def name(self) -> str:
        """The name of the backend."""
        return str(self._told("getBackendName", type(self).__name__))

    def _told(self, method: str, otherwise: object) -> Any:  # noqa: ANN401 (as the method has it)
        found = getattr(self, method, None)
        return otherwise if found is None else found()

    def start(self, *call: Any, **told: Any) -> Any:  # noqa: ANN401 (as Call has it)
        """As that of NativeCalls: by the object's own method, or as the methods here do it."""
        asked = Call(*call, **told)
        form = _FORMS.get(asked.operation)
        if form is None:
            raise not_offered(f"Backend {self.name()} does not support {asked.operation}")
        method = self._method(form)
        if method is None:
            return self._begin(*call, **told)
        last = () if form.options is None else (_options_of(form.options, asked),)
        work: Work | None = method(*form.arguments(asked), *last)
        if not asked.async_op and work is not None:
            work.wait()
        return work

    def _method(self, form: _Form) -> Callable[..., Any] | None:
        return next((m for name in form.names if (m := own_method(self, name))), None)

    def _offers(self, operation: str) -> bool:
        """Whether it has a method of its own for that."""
        return self._method(_FORMS[operation]) is not None

    def monitored_barrier(self, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """Of unisono's own backend; others may have one."""
        raise not_offered(f"Backend {self.name()} does not support monitored_barrier")

    def abort(self) -> None:
        """Fails what is under way, where the class says how."""

    def shutdown(self) -> None:
        """Ends it in order, where the class says how."""

    def set_timeout(self, timeout: timedelta) -> None:
        """How long operations may take that have no timeout: for the class to obey."""


def _array(given: Array) -> Array:
    """What classes of programs can count on: plain memory, as objects travel in, becomes one."""
    if not isinstance(given, bytes | bytearray | memoryview | plain_array):
        return given
    import numpy

    return numpy.asarray(memoryview(given))


class WrittenCore:
    """In place of the extension's Group: lets a unisono.Group use what is written in Python."""

    def __init__(
        self, target: WrittenCalls, name: str, desc: str, store: _core.Store | None
    ) -> None:
        self._target = target
        self.rank: int = target.rank()
        self.size: int = target.size()
        self.name = name
        self.desc = desc
        self._store = store
        self._made: _core.Group | None = None

    @property
    def _inner(self) -> _core.Group:
        """What C++ takes for it, and calls submit() of this by."""
        if self._made is None:
            backend = self._target.name()
            gathers = self._target._offers("all_gather_single")
            self._made = _core.group_by(
                self, self._store, self.rank, self.size, self.name, backend, gathers
            )
        return self._made

    def submit(
        self,
        operation: str,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        op: Op,
        root: int,
        peer: int,
        tag: int,
        async_op: bool,
        milliseconds: int,
        input_splits: Sequence[int],
        output_splits: Sequence[int],
    ) -> _core.Work:
        timeout = None if milliseconds < 0 else timedelta(milliseconds=milliseconds)
        work = self._target.start(
            operation,
            [_array(each) for each in inputs],
            [_array(each) for each in outputs],
            op=op,
            root=root,
            peer=peer,
            tag=tag,
            async_op=async_op,
            timeout=timeout,
            input_splits=input_splits,
            output_splits=output_splits,
        )
        if work is None:  # as c10d has it: there is nothing to wait for
            ended = _core.OpenWork()
            ended.finish()
            return ended
        if not isinstance(work, Work):
            kind = f"{type(self._target).__name__}.{method_name(operation)}()"
            raise TypeError(f"{kind} must give a Work, not {type(work).__name__}")
        return work._work

    def all_reduce(self, array: Array, op: Op) -> None:
        self._run("all_reduce", array, op)

    def reduce(self, array: Array, root: int, op: Op) -> None:
        self._run("reduce", array, op, root)

    def broadcast(self, array: Array, root: int) -> None:
        self._run("broadcast", array, "sum", root)

    def barrier(self) -> None:
        self.submit("barrier", (), (), "sum", -1, -1, 0, False, -1, (), ())

    def _run(self, operation: str, array: Array, op: Op, root: int = -1) -> None:
        self.submit(operation, (), (array,), op, root, -1, 0, False, -1, (), ())

    def monitored_barrier(self, milliseconds: int, wait_all_ranks: bool) -> None:
        timeout = None if milliseconds < 0 else timedelta(milliseconds=milliseconds)
        self._target.monitored_barrier(timeout, wait_all_ranks)

    def set_timeout(self, milliseconds: int) -> None:
        timeout = timedelta(milliseconds=milliseconds)
        self._target.set_timeout(timeout)

    def close(self) -> None:
        self._target.shutdown()

    def abort(self) -> None:
        self._target.abort()

    def leave(self) -> None:
        if self._made is not None:
            self._made.leave()

    def split(self, color: int | None, name: str) -> None:
        raise self._cannot("split()")

    def split_group(self, *arguments: object) -> None:
        raise self._cannot("new_group()")

    def allocate(self, octets: int) -> None:
        raise self._cannot("allocate()")

    def _cannot(self, call: str) -> Exception:
        kind = type(self._target).__name__
        return not_offered(
            f"{call} of a Group is not offered for {kind}, which is written in Python",
            "use unisono.distributed.new_group()",
        )
