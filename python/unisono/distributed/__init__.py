"""The stores, under the names, signatures and exceptions of torch.distributed 2.13.

    from unisono.distributed import TCPStore

replaces torch's import. What differs is in docs/python.md.
"""

from unisono._core import FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore
from unisono._errors import (
    AbortedError,
    DistAuthError,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    DistTimeoutError,
    MismatchError,
    NotSupportedError,
    PeerDeadError,
    QueueEmptyError,
    StoreValueError,
    UsageError,
)
from unisono.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = [
    "AbortedError",
    "DistAuthError",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "DistTimeoutError",
    "FakeStore",
    "FileStore",
    "HashStore",
    "MismatchError",
    "NotSupportedError",
    "PeerDeadError",
    "PrefixStore",
    "QueueEmptyError",
    "Store",
    "StoreValueError",
    "TCPStore",
    "UsageError",
    "register_rendezvous_handler",
    "rendezvous",
]

# The names under which users know the classes, in tracebacks and help().
for _class in (FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore):
    _class.__module__ = __name__
del _class
