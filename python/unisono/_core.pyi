# Generated from python/bindings by nanobind, not to be edited.
"""unisono's C++ library, as the package uses it."""

from collections.abc import Callable, Iterable, Sequence
import datetime
from typing import overload


version: str = '0.1.0'

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

    def split(self, color: int | None) -> Group | None:
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
