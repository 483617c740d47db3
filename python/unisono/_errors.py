"""What unisono raises. The names are torch.distributed's; the extension fills in the fields."""

from __future__ import annotations


class DistError(RuntimeError):
    """Base of everything unisono raises. Its text is one line; programs compare `reason`."""

    reason: str = ""
    """The stable word for what happened, such as "TIMEOUT" or "STORE_LOST"; see docs/errors.md."""
    hint: str = ""
    """What to do about it."""
    op: str = ""
    """The call that failed, such as "get"."""
    host: str = ""
    """The peer, such as "10.0.0.1:29500"."""
    group: str = ""
    culprits: tuple[int, ...] = ()
    rank: int | None = None
    world: int | None = None
    seq: int | None = None
    elapsed_ms: int | None = None


class DistBackendError(DistError):
    """A collective failed."""


class PeerDeadError(DistBackendError):
    """A peer's process is gone."""


class MismatchError(DistBackendError):
    """The ranks called different things."""


class AbortedError(DistBackendError):
    """Somebody called abort."""


class DistStoreError(DistError):
    """A store refused the call, or its timeout passed."""


class QueueEmptyError(DistStoreError):
    """A pop that was not to wait found an empty queue."""


class StoreValueError(DistStoreError, ValueError):
    """A store refused the call for what is stored there, as `add` does on text."""


class DistNetworkError(DistError):
    """Connecting, listening, or the connection failed."""


class DistTimeoutError(DistError, TimeoutError):
    """The deadline of a collective passed."""


class DistAuthError(DistError):
    """Authentication failed."""


class UsageError(DistError, ValueError):
    """The arguments are wrong; nothing was sent."""


class NotSupportedError(UsageError, NotImplementedError):
    """This store does not offer the operation at all."""


# Users know them by the package that offers them; pickle finds them there too.
for _class in [
    *(DistError, DistBackendError, PeerDeadError, MismatchError, AbortedError, DistStoreError),
    *(QueueEmptyError, StoreValueError, DistNetworkError, DistTimeoutError, DistAuthError),
    *(UsageError, NotSupportedError),
]:
    _class.__module__ = "unisono.distributed"
del _class
