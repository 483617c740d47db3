"""DataParallel: every rank computes gradients of its share of the data, and all train one model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from unisono import _core
from unisono._arrays import Array
from unisono._group import Group
from unisono._hooks import Hook, HookFunction
from unisono._refusal import refusal
from unisono._sparse import Table, as_gradient

MIB = 1 << 20


class DataParallel:
    """Gradients of all ranks become their average, while later ones are still computed.

        model = unisono.DataParallel({"weights": weights, "bias": bias}, world)
        for ... :
            with model.step():
                model.ready("bias", error.mean(axis=0))         # from here on it is averaged,
                model.ready("weights", inputs.T @ error / n)    # while this is computed
            weights -= rate * model.grad("weights")             # the same on all ranks
            bias -= rate * model.grad("bias")

    All ranks begin with the parameters of rank 0, and make the same steps with the same averages,
    so they keep the same parameters. Gradients are reduced in buckets, in the same order on all
    ranks, whichever order they come in.

    - `params`: arrays by their names, or in a row; of NumPy, or with the buffer protocol or DLPack.
      The gradients are arrays of NumPy's in any case.
    - `hook`: one of unisono.distributed.BuiltinCommHookType; or a function that takes a GradBucket,
      and returns a Future of the array that takes the place of its buffer(), or a Work: `lambda
      bucket: world.all_reduce(bucket.buffer(), "avg", async_op=True)`.
    - `first_bucket_bytes_cap`, `bucket_bytes_cap`: when the first bucket, and all others, are
      closed; `bucket_bytes_cap_list`: the same for each.
    - `find_unused_parameters`: parameters that are not ready at the end of a step were not used.
      What no rank has used keeps its gradient.
    - `static_graph`: all steps mark the same parameters, equally often, as the first.
    - `gradient_as_bucket_view`: gradients are where they are reduced, and nothing is copied; they
      move once, in the second step. Otherwise each has a place of its own for ever.
    - `broadcast_parameters`: all ranks begin with the values of rank 0.
    - `sparse`: parameters whose gradients are sparse, as those of a table of which a step reads few
      rows. They are given as indices and values in every step, `model.ready("table", (rows,
      values))`, and read as a SparseGradient. Only the built-in hook ALLREDUCE is for them.

    ready() may be called by several threads at once; all else is for one at a time.
    """

    def __init__(
        self,
        params: Mapping[str, Array] | Sequence[Array],
        world: Group,
        *,
        hook: HookFunction | _core.BuiltinCommHookType | None = None,
        bucket_bytes_cap: int = 25 * MIB,
        first_bucket_bytes_cap: int = MIB,
        bucket_bytes_cap_list: Sequence[int] = (),
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        gradient_as_bucket_view: bool = True,
        broadcast_parameters: bool = True,
        sparse: Collection[str | int] = (),
    ) -> None:
        """Every rank calls it with the same parameters, which stay where they are.

        MismatchError, on all ranks, when their parameters differ.
        """
        if not isinstance(world, Group):
            raise TypeError(f"world must be a unisono.Group, not {type(world).__name__}")
        names, arrays = _split(params)
        self._index = {name: index for index, name in enumerate(names)}
        self._size = len(arrays)
        named = {self._index_of(each) for each in sparse}
        if not named <= {*range(self._size)}:
            unknown = min(named - {*range(self._size)})
            raise refusal(f"there is no parameter {unknown} whose gradients could be sparse")
        self._hook = _own(hook)
        self._is_static = static_graph
        self._is_accumulating = False  # inside no_sync()
        self._is_syncing = False  # the step that is open is reduced
        self._joined: _core.Join | None = None  # inside join()
        self._marked: set[int] = set()  # in this step
        self._written: set[int] = set()  # since the last step that was reduced
        self._core = _core.DataParallel(
            world._handle,
            arrays,
            names,
            bucket_bytes_cap,
            first_bucket_bytes_cap,
            bucket_bytes_cap_list,
            static_graph,
            find_unused_parameters,
            gradient_as_bucket_view,
            broadcast_parameters,
            [index in named for index in range(self._size)] if named else (),
        )
        self._tables = {
            index: Table(names[index] if names else index, arrays[index]) for index in named
        }
        self._join(world)
        if self._hook is not None:
            self._core.register_hook(self._hook)
        elif isinstance(hook, _core.BuiltinCommHookType):
            self._core.register_builtin_hook(hook)

    def __len__(self) -> int:
        """How many parameters there are."""
        return self._size

    def begin(self) -> None:
        """Opens a step; inside no_sync() one that only adds up gradients."""
        if self._joined is not None:
            self._joined.begin(not self._is_accumulating)
        self._core.begin(not self._is_accumulating)
        self._is_syncing = not self._is_accumulating
        if self._hook is not None:
            self._hook.forget()
        self._marked.clear()

    def finish(self) -> None:
        """Ends the step: every gradient is the average over all ranks.

        Raises, with the names, when gradients are missing; then the other ranks are told so, too.
        After Ctrl-C the step is still open, and this may be called again.
        """
        with self._explained():
            self._core.finish()
        if self._is_syncing:
            self._written.clear()

    @contextmanager
    def step(self) -> Iterator[DataParallel]:
        """A step from begin() to finish(). What the body raises leaves the step unfinished."""
        self.begin()
        yield self
        self.finish()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Steps inside it only add up gradients, on this rank; the next one outside reduces them.

        For several batches per step:

            with model.no_sync():
                for batch in batches[:-1]:
                    backward(model, batch)
            backward(model, batches[-1])
        """
        before, self._is_accumulating = self._is_accumulating, True
        try:
            yield
        finally:
            self._is_accumulating = before

    @contextmanager
    def join(
        self, *, divide_by_initial_world_size: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Ranks may make different numbers of steps inside it:

            with model.join():
                for batch in batches_of_this_rank:
                    with model.step():
                        ...

        A rank that has made its last step gives zeros to the averages of the others. At the end
        all have the parameters of one that came last. Averages are sums divided by the number of
        ranks, or of those that still make steps, without `divide_by_initial_world_size`. With
        `throw_on_early_termination` all ranks raise as soon as one has made its last step.
        """
        if self._joined is not None:
            raise refusal("a join() inside another one", "leave the inner one out")
        self._joined = _core.Join(
            self._core, divide_by_initial_world_size, throw_on_early_termination
        )
        try:
            yield
            with self._explained():
                self._joined.finish()
        finally:
            self._joined.leave()
            self._joined = None

    def logging_data(self) -> dict[str, str | int]:
        """What is noted of the training, under the names of torch's DDPLoggingData: how long
        computing and communicating took, how much of it at the same time, in nanoseconds; ..."""
        texts, numbers = self._core.logging_data()
        return {**texts, **numbers}

    def grad(self, param: str | int) -> Array:
        """Where a gradient is written, and read after finish(): as large as its parameter, 0 at
        first. Ask again after each begin(), in which it may move.

        Of a parameter whose gradients are sparse, a SparseGradient: what ready() was given, and
        after finish() the average.
        """
        index = self._index_of(param)
        if index in self._tables:
            return as_gradient(self._core.sparse_grad(index))
        return self._core.grad(index)

    def ready(self, param: str | int, gradient: Array | None = None) -> None:
        """A gradient is complete for this step: from here on it may be reduced.

        With `gradient`, that is first written to grad(); or added to it, if it was written since
        the last step that was reduced: inside no_sync(), and where a static graph marks it again.
        A sparse gradient is a pair of indices and values, or nothing for one without entries.
        """
        index = self._index_of(param)
        if self._is_static or index not in self._marked:
            if index in self._tables:
                self._write_sparse(index, gradient)
            elif gradient is not None:
                self._write(index, gradient, param)
        with self._explained():
            self._core.mark_ready(index)
        self._marked.add(index)

    def zero_grad(self) -> None:
        """All gradients become 0."""
        self._core.zero_grad()
        self._written.clear()

    def buckets(self) -> list[list[int]]:
        """Which parameters are reduced together, bucket after bucket."""
        return self._core.buckets()

    def reset_state(self, world: Group | None = None) -> None:
        """Forgets the step that is open; with `world`, goes on with that group.

        For going on after a failure, on all ranks of the new group. A hook that is not built in
        keeps using what it uses.
        """
        self._core.reset_state(None if world is None else world._handle)
        self._marked.clear()
        self._written.clear()
        if world is not None:
            self._world._users.discard(self)
            self._join(world)

    def _join(self, world: Group) -> None:
        """From now on, who leaves `world` lets go of it here, too."""
        self._world = world
        world._users.add(self)

    def _leave(self) -> None:
        if self._joined is not None:
            self._joined.leave()
        self._core.leave()

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext() if self._hook is None else self._hook.explained()

    def _index_of(self, param: str | int) -> int:
        if not isinstance(param, str):
            return param
        if param not in self._index:
            known = ", ".join(self._index) or "none: they were not given by name"
            raise refusal(f"there is no parameter '{param}'", f"name one of {known}")
        return self._index[param]

    def _write_sparse(self, index: int, gradient: object) -> None:
        table = self._tables[index]
        entries = table.nothing() if gradient is None else table.entries(gradient)
        if index in self._written:
            entries = table.sum_of(self._core.sparse_grad(index) or table.nothing(), entries)
        self._core.set_sparse_grad(index, *entries)
        self._written.add(index)

    def _write(self, index: int, gradient: Array, param: str | int) -> None:
        import numpy

        place = self._core.grad(index)
        if numpy.shape(gradient) != place.shape:
            raise refusal(
                f"the gradient of parameter {param} has shape {numpy.shape(gradient)}, but the"
                f" parameter {place.shape}",
                "give a value for each element of the parameter",
            )
        if index in self._written:
            place += gradient
        else:
            place[...] = gradient
            self._written.add(index)


def _split(params: Mapping[str, Array] | Sequence[Array]) -> tuple[list[str], list[Array]]:
    """Names, of those that have some, and arrays."""
    if isinstance(params, Mapping):
        return list(params), list(params.values())
    return [], list(params)


def _own(hook: HookFunction | _core.BuiltinCommHookType | None) -> Hook | None:
    """A hook of the program's; None for one that comes with unisono."""
    if hook is None or isinstance(hook, _core.BuiltinCommHookType):
        return None
    return Hook(hook)
