"""What DistributedDataParallel is made of, for arrays: buckets, hooks, and the Reducer.

Names and arguments are those of torch's _distributed_c10d. There is no autograd that would tell
when a gradient is there, so a program says it itself: see Reducer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from unisono import _core
from unisono._core import BuiltinCommHookType, GradBucket
from unisono._errors import DistError
from unisono._future import Future
from unisono._hooks import Hook, future_of
from unisono._refusal import refusal
from unisono._sparse import Table, as_gradient
from unisono.distributed._state import ProcessGroup

if TYPE_CHECKING:
    from unisono import Group
    from unisono.distributed._logger import Logger

Array = Any

_DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
_DEFAULT_BUCKET_BYTES = 25 << 20


class Reducer:
    """Makes gradients the average over all ranks, while later ones are still computed.

        reducer = Reducer(params, buckets, limits, process_group)
        for ... :
            reducer._rebuild_buckets()
            reducer.prepare_for_backward([])
            for index in last_to_first:
                reducer.set_grad(index, backward(index))
                reducer._autograd_hook(index)      # a bucket that is full is reduced from here on
            reducer.finish()                       # every grad(index) is the average

    Gradients that come while no step is open are not reduced: they add up on this rank, as inside
    torch's no_sync().
    """

    def __init__(
        self,
        params: Sequence[Array],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: ProcessGroup,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = _DEFAULT_BUCKET_BYTES,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: Mapping[int, str] | None = None,
        first_bucket_bytes_cap: int = _DEFAULT_FIRST_BUCKET_BYTES,
        skip_all_reduce_unused_params: bool = False,
        use_python_reducer: bool = False,
        bucket_bytes_cap_list: Sequence[int] = (),
        batched_grad_copy: bool = False,
    ) -> None:
        """As torch's; `per_bucket_size_limits` and `batched_grad_copy` change nothing.

        `skip_all_reduce_unused_params` is for ranks that leave the same parameters unused in each
        step: others get a MismatchError. `use_python_reducer` is refused.
        """
        if use_python_reducer:
            raise refusal("a Reducer with use_python_reducer is not offered", "leave it out")
        names = param_to_name_mapping or {}
        self._arguments = (
            list(params),
            [names.get(index, "") for index in range(len(params))],
            [list(bucket) for bucket in bucket_indices],
            bucket_bytes_cap,
            first_bucket_bytes_cap,
            list(bucket_bytes_cap_list),
            [bool(each) for each in expect_sparse_gradients],
            find_unused_parameters,
            gradient_as_bucket_view,
            skip_all_reduce_unused_params,
        )
        self._group = _group_of(process_group)
        self._process_group = process_group
        self._names = names
        self._metadata: Mapping[str, Array] | None = None  # of this step
        self._hook: Hook | BuiltinCommHookType | None = None
        self._loggers: WeakSet[Logger] = WeakSet()
        self._logger: Logger | None = None  # that is told of errors
        self._has_begun = False
        self._is_open = False  # a step that is reduced
        self._is_accumulating = False  # one that is not
        self._core = _core.Reducer(self._group._handle, *self._arguments, False)
        self._tables = {
            index: Table(names.get(index, index), params[index])
            for index, is_sparse in enumerate(expect_sparse_gradients)
            if is_sparse
        }
        self._group._users.add(self)

    def set_grad(self, index: int, gradient: Array | None) -> None:
        """From now on the gradient of parameter `index` is this array, or none.

        Where it was said to be sparse, it is a pair of indices and values (SparseGradient).
        """
        if index not in self._tables:
            self._core.set_grad(index, gradient)
        elif gradient is None:
            self._core.set_sparse_grad(index, None, None)
        else:
            self._core.set_sparse_grad(index, *self._tables[index].entries(gradient))

    def grad(self, index: int) -> Array | None:
        """The gradient of parameter `index`: where gradients are views, one of its bucket; where
        they are sparse, a SparseGradient."""
        if index in self._tables:
            return as_gradient(self._core.sparse_grad(index))
        return self._core.grad(index)

    def set_logger(self, logger: Logger) -> None:
        """Who is told of errors; once in its life."""
        logger._attach()
        self._logger = logger

    def prepare_for_forward(self) -> None:
        """A step begins, before there are gradients: it is counted and, now and then, timed."""
        self._core.prepare_for_forward()

    def prepare_for_backward(self, outputs: object = (), *, unused: Sequence[int] = ()) -> None:
        """Opens a step. `outputs` have no graph to be searched: `unused` names parameters that get
        no gradient on this rank."""
        self._core.begin_backward(unused, True)
        if isinstance(self._hook, Hook):
            self._hook.forget()
        self._has_begun = self._is_open = True
        self._is_accumulating = False

    def finish(self) -> None:
        """Ends the step, which torch's backward() does: every gradient is the average."""
        with self._explained():
            try:
                self._core.finish()
            except DistError:  # but not after Ctrl-C: the step is still open then
                self._close()
                raise
        self._close()

    def _autograd_hook(self, index: int) -> None:
        """The gradient of parameter `index` is complete."""
        if not self._is_open and not self._is_accumulating:
            self._core.begin_backward((), False)
            self._is_accumulating = True
        if self._metadata is not None and index in self._tables:
            self._spread(index, self._metadata)
        with self._explained():
            self._core.mark_ready(index)

    def _rebuild_buckets(self) -> bool:
        """Once, when that is known: orders buckets by how gradients came. Whether it did."""
        if self._is_accumulating:
            self.finish()
        return self._core.rebuild_buckets()

    def get_backward_stats(self) -> list[int]:
        """Nanoseconds from prepare_for_backward() until each gradient came, in the last step."""
        return self._core.backward_stats()

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """After the first ten, one step in `sample_rate` is timed."""
        self._core.set_sample_rate(sample_rate)

    def _ddp_graph_static(self) -> bool:
        """While unused parameters are looked for: whether they were the same in all steps."""
        return self._core.is_graph_static()

    def _get_local_used_map(self) -> Array:
        """By how many ranks each parameter was used in the last step."""
        import numpy

        return numpy.array(self._core.used_map(), numpy.int32)

    def _set_static_graph(self) -> None:
        """All steps will mark the same parameters, equally often, as the first."""
        if self._has_begun:
            raise refusal("_set_static_graph() should be called before training loop starts")
        before = self._core
        self._core = _core.Reducer(self._group._handle, *self._arguments, True)
        for index in range(len(self._arguments[0])):
            if index in self._tables:
                self._core.set_sparse_grad(index, *(before.sparse_grad(index) or (None, None)))
            else:
                self._core.set_grad(index, before.grad(index))
        for logger in self._loggers:
            logger._follow(self._core, logger is self._logger)
        before.leave()
        self._install(self._hook)

    def _reset_state(self) -> None:
        """Forgets the step that is open, after waiting for what is under way."""
        self._core.reset_state(None)
        self._close()

    def _update_process_group(self, new_process_group: ProcessGroup) -> None:
        """As _reset_state(); goes on with another group."""
        group = _group_of(new_process_group)
        self._core.reset_state(group._handle)
        self._close()
        self._group._users.difference_update([self, *self._loggers])
        self._group = group
        self._process_group = new_process_group
        self._group._users.update([self, *self._loggers])

    def _set_sparse_metadata(self, metadata: Mapping[str, Array]) -> None:
        """For the next step: by name of a parameter whose gradients are sparse, all rows that any
        rank has. The gradient will have these, each once and in order."""
        self._metadata = dict(metadata)

    def _check_reducer_finalized(self) -> None:
        """Raises, naming parameters, when a step was begun, but not finished."""
        self._core.check_finalized()

    def _get_zeros_like_grad_buckets(self) -> list[GradBucket]:
        """The buckets as a hook would get them now, but of zeros."""
        return self._core.zero_buckets()

    def _run_allreduce_hook(self, bucket: GradBucket) -> Future:
        """Starts the sum of a bucket over all ranks: what a step without a hook does."""
        return self._process_group.allreduce([bucket.buffer()]).get_future()

    def _run_comm_hook(self, bucket: GradBucket) -> Future:
        """Lets the hook that is registered reduce a bucket; without one, _run_allreduce_hook()."""
        if self._hook is None:
            return self._run_allreduce_hook(bucket)
        if isinstance(self._hook, Hook):
            return self._hook.future_for(bucket)
        from unisono import hooks  # it needs NumPy, which who has a bucket has

        is_plain = self._hook == BuiltinCommHookType.ALLREDUCE
        make = hooks.allreduce if is_plain else hooks.fp16_compress
        return future_of(make(self._group)(bucket))

    def _spread(self, index: int, metadata: Mapping[str, Array]) -> None:
        name = self._names.get(index, "")
        if name not in metadata:
            raise refusal(
                f"param: {name} not found in sparse metadata", "name all parameters that are sparse"
            )
        entries = self._core.sparse_grad(index)
        if entries is not None:
            spread = self._tables[index].spread(entries, metadata[name])
            self._core.set_sparse_grad(index, *spread)

    def _close(self) -> None:
        """No step is open."""
        self._is_open = self._is_accumulating = False
        self._metadata = None

    def _register(self, hook: Hook | BuiltinCommHookType) -> None:
        self._install(hook)
        self._hook = hook

    def _install(self, hook: Hook | BuiltinCommHookType | None) -> None:
        if isinstance(hook, Hook):
            self._core.register_hook(hook)
        elif hook is not None:
            self._core.register_builtin_hook(hook)

    def _note(self, logger: Logger) -> None:
        self._loggers.add(logger)
        self._group._users.add(logger)

    def _explained(self) -> AbstractContextManager[None]:
        return self._hook.explained() if isinstance(self._hook, Hook) else nullcontext()

    def _leave(self) -> None:
        self._core.leave()


def _group_of(process_group: ProcessGroup) -> Group:
    if not isinstance(process_group, ProcessGroup):
        kind = type(process_group).__name__
        raise TypeError(f"process_group must be a ProcessGroup, not {kind}")
    return process_group._group


def _register_comm_hook(
    reducer: Reducer, state: object, comm_hook: Callable[[Any, GradBucket], Any]
) -> None:
    """Lets `comm_hook(state, bucket)` reduce buckets: it returns a Future of one array."""
    if not callable(comm_hook):
        raise TypeError("Communication hook must be callable.")
    reducer._register(Hook(lambda bucket: comm_hook(state, bucket)))


def _register_builtin_comm_hook(reducer: Reducer, comm_hook_type: BuiltinCommHookType) -> None:
    """The same, with a hook that comes with unisono."""
    reducer._register(comm_hook_type)


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Array],
    bucket_size: Sequence[int],
    expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (),
    logger: None = None,
) -> tuple[list[list[int]], list[int]]:
    """Which arrays travel together, and at how many bytes each bucket was closed."""
    return _core.compute_bucket_assignment_by_size(
        tensors, bucket_size, expect_sparse_gradient, tensor_indices
    )


def _broadcast_coalesced(
    process_group: ProcessGroup, tensors: Sequence[Array], buffer_size: int, src: int = 0
) -> None:
    """The arrays of rank `src` become those of all, about `buffer_size` bytes at a time."""
    _core.broadcast_coalesced(_group_of(process_group)._handle, tensors, buffer_size, src)


def _verify_params_across_processes(
    process_group: ProcessGroup, params: Sequence[Array], logger: None = None
) -> None:
    """Returns when all ranks have parameters of the same types, shapes and strides.

    MismatchError on all of them otherwise, which says where they differ.
    """
    _core.verify_params(_group_of(process_group)._handle, params, ())


# The names under which users know the classes, in tracebacks, help() and pickles.
for _class in (BuiltinCommHookType, GradBucket):
    _class.__module__ = "unisono.distributed"
del _class
