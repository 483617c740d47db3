# Generated from python/bindings by nanobind, not to be edited.
"""unisono's C++ library, as the package uses it."""

from collections.abc import Callable, Iterable, Sequence
import datetime
import enum
from typing import Any, overload


version: str = '0.1.0'

def debug_level() -> int:
    """The debug level: 0 is OFF, 1 INFO, 2 DETAIL."""

def set_debug_level(level: int) -> None: ...

def set_debug_level_from_env() -> None: ...

def set_log_rank(rank: int) -> None:
    """Puts the rank in front of every line of the log; -1 for none."""

class Store:
    """
    The key-value service through which the ranks of a job find each other.
    """

    def __init__(self) -> None:
        """
        For classes derived in Python, which define set, get, add and so on themselves.
        """

    def clone(self) -> Store:
        """Another client of the same data, with a connection of its own."""

    @property
    def timeout(self) -> datetime.timedelta:
        """How long calls wait that are not given a timeout."""

    def set_timeout(self, timeout: datetime.timedelta | float) -> None:
        """Sets how long later calls wait."""

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are done in one step."""

    def set(self, key: str | bytes | bytearray, value: str | bytes | bytearray) -> None:
        """Sets `key`, and wakes those who wait for it."""

    def get(self, key: str | bytes | bytearray) -> bytes:
        """The value of `key`; waits up to the timeout for it to be set."""

    def compare_set(self, key: str | bytes | bytearray, expected_value: str | bytes | bytearray, desired_value: str | bytes | bytearray) -> bytes:
        """
        Sets `key` if its value is the expected one; returns the value after that.
        """

    def add(self, key: str | bytes | bytearray, amount: int) -> int:
        """Adds to the counter `key`, and returns the sum."""

    def append(self, key: str | bytes | bytearray, value: str | bytes | bytearray) -> None:
        """Appends to the value of `key`, or sets it."""

    def check(self, keys: Iterable[str | bytes | bytearray]) -> bool:
        """Whether all `keys` are set now."""

    def delete_key(self, key: str | bytes | bytearray) -> bool:
        """Removes `key`; returns whether it was there."""

    def num_keys(self) -> int:
        """How many keys there are, the store's own included."""

    def list_keys(self) -> list[str]:
        """The keys that users set, in no particular order."""

    @overload
    def wait(self, keys: Iterable[str | bytes | bytearray]) -> None: ...

    @overload
    def wait(self, keys: Iterable[str | bytes | bytearray], timeout: datetime.timedelta | float) -> None:
        """Waits until all `keys` are set."""

    def barrier(self, key: str | bytes | bytearray, world_size: int, timeout: datetime.timedelta | float | None = None) -> None:
        """
        Waits until `world_size` callers have arrived at `key`; use a fresh key each time.
        """

    def multi_get(self, keys: Iterable[str | bytes | bytearray]) -> list[bytes]:
        """The values of all `keys`, in order; waits up to the timeout for them."""

    def multi_set(self, keys: Iterable[str | bytes | bytearray], values: Iterable[str | bytes | bytearray]) -> None:
        """Sets all `keys`, each to the value at the same place."""

    def queue_push(self, key: str | bytes | bytearray, value: str | bytes | bytearray) -> None:
        """Appends to the queue `key`."""

    def queue_pop(self, key: str | bytes | bytearray, block: bool = True) -> bytes:
        """Takes the oldest element of the queue; waits for one if `block`."""

    def queue_len(self, key: str | bytes | bytearray) -> int:
        """How many elements the queue holds."""

class TCPStore(Store):
    """A store over TCP, in the wire format of PyTorch's TCPStore."""

    def __init__(self, host_name: str | bytes | bytearray, port: int, world_size: int | None = None, is_master: bool = False, timeout: datetime.timedelta | float = datetime.timedelta(seconds=300), wait_for_workers: bool = True, multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True) -> None:
        """Runs the server if `is_master`, and connects."""

    @property
    def host(self) -> str:
        """The name or address of the server's host."""

    @property
    def port(self) -> int:
        """The port of the server."""

    @property
    def libuvBackend(self) -> bool:
        """The use_libuv that was asked for; servers of both kinds behave alike."""

    def __repr__(self) -> str: ...

class FileStore(Store):
    """A store in a file that all ranks can reach."""

    def __init__(self, file_name: str | bytes | bytearray, world_size: int = -1) -> None:
        """With `world_size`, the file goes with the last of that many objects."""

    @property
    def path(self) -> str:
        """The path of the file."""

class HashStore(Store):
    """A store inside one process, for ranks that are threads."""

    def __init__(self) -> None: ...

class FakeStore(Store):
    """A store that keeps nothing, for groups that are not real."""

    def __init__(self) -> None: ...

class PrefixStore(Store):
    """A view of another store in which every key is under a prefix."""

    def __init__(self, prefix: str | bytes | bytearray, store: Store) -> None: ...

    @property
    def underlying_store(self) -> Store:
        """The store that is wrapped, which may be a PrefixStore itself."""

class ControlCollectives:
    """
    A few bytes from each rank, by calls that wait and say who has not come. Every call needs a key that was not used before, the same on all ranks.
    """

    def barrier(self, key: str | bytes | bytearray, timeout: datetime.timedelta | float = ..., block: bool = True) -> None:
        """
        Waits until all ranks have come; without `block` only tells them of this one.
        """

    def all_sum(self, key: str | bytes | bytearray, data: int, timeout: datetime.timedelta | float = ...) -> int:
        """The sum of the numbers of all ranks."""

    def all_gather(self, key: str | bytes | bytearray, data: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> list[bytes]:
        """What each rank gives, by rank, for all of them."""

    def broadcast_send(self, key: str | bytes | bytearray, data: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> None:
        """Sends `data` to all other ranks, which call broadcast_recv."""

    def broadcast_recv(self, key: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> bytes:
        """What the rank that called broadcast_send has sent."""

    def gather_send(self, key: str | bytes | bytearray, data: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> None:
        """Sends `data` to the rank that calls gather_recv."""

    def gather_recv(self, key: str | bytes | bytearray, data: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> list[bytes]:
        """
        What all other ranks have sent, by rank, and `data` at this one's place.
        """

    def scatter_send(self, key: str | bytes | bytearray, data: Iterable[str | bytes | bytearray], timeout: datetime.timedelta | float = ...) -> bytes:
        """Sends each rank its part of `data`, and returns this one's own."""

    def scatter_recv(self, key: str | bytes | bytearray, timeout: datetime.timedelta | float = ...) -> bytes:
        """This rank's part of what the one that called scatter_send has sent."""

class StoreCollectives(ControlCollectives):
    """Control collectives by way of a store."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None: ...

def meet(url: str, rank: int | None, world_size: int | None, timeout: datetime.timedelta | float | None) -> tuple[Store, int, int]:
    """
    Meets the other ranks at `url`; returns the store, the rank and the world size.
    """

class Work:
    """An operation under way."""

    def wait(self, milliseconds: int) -> bool:
        """Waits for its end, below 0 without limit; raises what it failed with."""

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""

    def is_success(self) -> bool:
        """False once it has failed."""

    def source_rank(self) -> int:
        """The rank that a message came from."""

    def op_type(self) -> int:
        """
        The number of its operation, c10d's; 100 where that is not known any more.
        """

    def duration(self) -> float:
        """
        How many milliseconds it ran; NotSupportedError where nobody has measured that.
        """

    def end_descriptor(self) -> int:
        """
        A descriptor that can be read from once it has ended, to be closed by the caller.
        """

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once it has ended, on the thread that ends it."""

class Group:
    """Ranks that work together."""

    @property
    def rank(self) -> int:
        """The rank of this one."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    @property
    def name(self) -> str:
        """The name of the group."""

    @property
    def desc(self) -> str:
        """What was said of the group when it was made."""

    def submit(self, operation: str, inputs: Sequence[object], outputs: Sequence[object], op: object, root: int, peer: int, tag: int, async_op: bool, milliseconds: int, input_splits: Sequence[int], output_splits: Sequence[int]) -> Work:
        """Starts an operation, and waits for it unless `async_op`."""

    def monitored_barrier(self, milliseconds: int, wait_all_ranks: bool) -> None:
        """Waits for all ranks; rank 0 says who has not come."""

    def all_reduce(self, array: object, op: object) -> None:
        """
        As submit(), for an array in place and without a timeout of its own; it waits.
        """

    def reduce(self, array: object, root: int, op: object) -> None:
        """As all_reduce()."""

    def broadcast(self, array: object, root: int) -> None:
        """As all_reduce()."""

    def barrier(self) -> None:
        """As all_reduce(), with no array."""

    def split(self, color: int | None, name: str) -> Group | None:
        """A group of those who give the same color; None for who gives none."""

    def split_group(self, lists: Sequence[list[int]], milliseconds: int, desc: str, sort_ranks: bool) -> Group | None:
        """The group, one for each list of ranks, that this one is in, or None."""

    def set_timeout(self, milliseconds: int) -> None:
        """Sets how long operations may take that have no timeout."""

    def allocate(self, bytes: int) -> object:
        """
        An array of NumPy's, of so many zeros, that the other ranks reach where it is.
        """

    def close(self) -> None:
        """Ends it in order: waits for operations under way."""

    def abort(self) -> None:
        """Fails what is under way, here and elsewhere."""

    def leave(self) -> None:
        """Lets go of it: operations under way have a moment to end."""

def init_group(url: str | None, store: Store | None, rank: int | None, size: int | None, name: str, backend: str, milliseconds: int) -> Group:
    """
    Meets the other ranks at `url` or `store`; what is None the launcher says.
    """

class OpenWork(Work):
    """An operation that is ended from Python."""

    def __init__(self) -> None: ...

    def finish(self) -> None:
        """It has ended well, unless it has ended before."""

    def fail(self, error: BaseException) -> None:
        """It has failed with `error`, unless it has ended before."""

def group_by(core: object, store: object, rank: int, size: int, name: str, backend: str, gathers: bool) -> Group:
    """
    A group whose operations are what `core.submit()` does; whether it has all_gather_single.
    """

def fake_group(rank: int, size: int, fake_option: int, error_on_collective: bool) -> Group:
    """A group of a process that pretends to be one of many."""

def checked_group(wrapped: Group, store: object) -> Group:
    """
    A group by the backend of another, whose ranks compare calls before they begin.
    """

class Coalescing:
    """Operations that are collected."""

    def __init__(self, group: Group) -> None: ...

    def end(self) -> Work:
        """Starts them together."""

class CompletionWatch:
    """Who is told of each operation's end."""

    def __init__(self, group: Group, hook: Callable[[int, int, int, int, float], object]) -> None: ...

    def wait(self) -> None:
        """
        Returns when all operations that were begun have ended, and the hook was told.
        """

def sequence_number(group: Group) -> int:
    """How many operations there were."""

def has_hooks(group: Group) -> bool:
    """Whether somebody is told of operations."""

def compute_bucket_assignment_by_size(arrays: Sequence[object], limits: Sequence[int], expect_sparse: Sequence[bool], indices: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Which arrays travel together, and where each bucket was closed."""

def broadcast_coalesced(group: Group, arrays: Sequence[object], bytes: int, root: int) -> None:
    """The arrays of rank `root` become those of all, some `bytes` at a time."""

def verify_params(group: Group, arrays: Sequence[object], names: Sequence[str]) -> None:
    """
    Returns when all ranks have the same parameters; raises on all otherwise.
    """

class BuiltinCommHookType(enum.Enum):
    """Hooks that come with unisono."""

    ALLREDUCE = 1
    """The average, as without a hook."""

    FP16_COMPRESS = 2
    """The average of the values as float16: half the bytes of float32."""

class GradBucket:
    """
    Gradients that are reduced together, as a communication hook gets them.
    """

    def index(self) -> int:
        """
        Its place in the order of reduction, which changes when buckets are rebuilt.
        """

    def buffer(self) -> Any:
        """All gradients in one row: a view."""

    def gradients(self) -> list[Any]:
        """
        The gradients one by one: views of the row, with the shapes of their parameters.
        """

    def parameters(self) -> list[Any]:
        """Their parameters, in the same order."""

    def is_last(self) -> bool:
        """Whether it is the last bucket of the step."""

    def set_buffer(self, buffer: object) -> None:
        """Puts another row in its place, for hooks around other hooks."""

class HookAnswer:
    """What a communication hook says to one bucket."""

    def give(self, array: object) -> None:
        """What takes the place of the gradients."""

    def fail(self, why: str) -> None:
        """That there is nothing, and why."""

class DataParallel:
    """All ranks train one model."""

    def __init__(self, group: Group, params: Sequence[object], names: Sequence[str], bucket_bytes_cap: int, first_bucket_bytes_cap: int, bucket_bytes_cap_list: Sequence[int], static_graph: bool, find_unused_parameters: bool, gradient_as_bucket_view: bool, broadcast_parameters: bool, expect_sparse: Sequence[bool]) -> None: ...

    def begin(self, sync: bool) -> None:
        """Opens a step."""

    def grad(self, index: int) -> Any:
        """Where a gradient is, until the next begin()."""

    def zero_grad(self) -> None:
        """All gradients become 0."""

    def logging_data(self) -> tuple[dict[str, str], dict[str, int]]:
        """All that is noted of the training: texts, and numbers."""

    def register_hook(self, hook: Callable[[GradBucket, HookAnswer], object]) -> None:
        """Lets `hook`, which the caller keeps, reduce buckets."""

    def register_builtin_hook(self, hook: BuiltinCommHookType) -> None:
        """The same, with one that comes with unisono."""

    def mark_ready(self, index: int) -> None:
        """A gradient is complete."""

    def finish(self) -> None:
        """Ends the step: all gradients are averages."""

    def buckets(self) -> list[list[int]]:
        """Which parameters are reduced together, in their order."""

    def reset_state(self, group: Group | None) -> None:
        """Forgets the step that is open, and goes on with `group`."""

    def leave(self) -> None:
        """Lets go of the group."""

    def set_sparse_grad(self, index: int, indices: object | None, values: object | None) -> None:
        """
        From now on a gradient has these values in these places; with None there is none.
        """

    def sparse_grad(self, index: int) -> tuple[Any, Any] | None:
        """Its places and values; None when there is none."""

class Join:
    """Training on ranks of which some have more inputs."""

    def __init__(self, model: DataParallel, divide_by_initial_world_size: bool, throw_on_early_termination: bool) -> None: ...

    def begin(self, sync: bool) -> None:
        """This rank has an input for one more step."""

    def finish(self) -> None:
        """It has no more; returns when no rank has."""

    def leave(self) -> None:
        """Lets go of the group."""

class Reducer:
    """Makes gradients averages, bucket by bucket."""

    def __init__(self, group: Group, params: Sequence[object], names: Sequence[str], buckets: Sequence[Sequence[int]], bucket_bytes_cap: int, first_bucket_bytes_cap: int, bucket_bytes_cap_list: Sequence[int], expect_sparse: Sequence[bool], find_unused_parameters: bool, gradient_as_bucket_view: bool, skip_all_reduce_unused_params: bool, static_graph: bool) -> None: ...

    def set_grad(self, index: int, array: object | None) -> None:
        """From now on a gradient is `array`."""

    def grad(self, index: int) -> Any | None:
        """Where a gradient is now."""

    def begin_backward(self, unused: Sequence[int], sync: bool) -> None:
        """Opens a step; without `sync` one that is not reduced."""

    def rebuild_buckets(self) -> bool:
        """Orders buckets by how gradients came; whether it did."""

    def check_finalized(self) -> None:
        """Raises when a step was begun, but not finished."""

    def zero_buckets(self) -> list[GradBucket]:
        """Buckets as a hook gets them, but of zeros."""

    def used_map(self) -> list[int]:
        """By how many ranks each parameter was used in the last step."""

    def prepare_for_forward(self) -> None:
        """A step begins, and is counted."""

    def set_sample_rate(self, rate: int) -> None:
        """After the first ten, one step in so many is timed."""

    def backward_stats(self) -> list[int]:
        """
        Nanoseconds from the beginning of the backward pass until each gradient came.
        """

    def is_graph_static(self) -> bool:
        """Whether the same parameters were unused in all steps."""

    def register_hook(self, hook: Callable[[GradBucket, HookAnswer], object]) -> None:
        """Lets `hook`, which the caller keeps, reduce buckets."""

    def register_builtin_hook(self, hook: BuiltinCommHookType) -> None:
        """The same, with one that comes with unisono."""

    def mark_ready(self, index: int) -> None:
        """A gradient is complete."""

    def finish(self) -> None:
        """Ends the step: all gradients are averages."""

    def buckets(self) -> list[list[int]]:
        """Which parameters are reduced together, in their order."""

    def reset_state(self, group: Group | None) -> None:
        """Forgets the step that is open, and goes on with `group`."""

    def leave(self) -> None:
        """Lets go of the group."""

    def set_sparse_grad(self, index: int, indices: object | None, values: object | None) -> None:
        """
        From now on a gradient has these values in these places; with None there is none.
        """

    def sparse_grad(self, index: int) -> tuple[Any, Any] | None:
        """Its places and values; None when there is none."""

class Logger:
    """Notes what a Reducer does."""

    def __init__(self, reducer: Reducer) -> None: ...

    def attach(self) -> None:
        """The Reducer tells it of errors, as long as it is there."""

    def set_runtime_stats(self) -> None:
        """Notes the last step, if it is one of those that are."""

    def data(self) -> tuple[dict[str, str], dict[str, int]]:
        """All that is known: texts, and numbers."""

    def leave(self) -> None:
        """Lets go of the group."""

    def set_construction_data(self, module_name: str, device_ids: Sequence[int], output_device: int, broadcast_buffers: bool, has_sync_bn: bool, static_graph: bool) -> None:
        """What the Reducer does not know."""

    def set_error(self, error: str) -> None:
        """Something went wrong."""

    def set_comm_hook(self, name: str) -> None:
        """What reduces buckets."""

    def set_uneven_input_join(self) -> None:
        """Some ranks may have more inputs than others."""

    def set_static_graph(self) -> None:
        """All steps use the same parameters."""
