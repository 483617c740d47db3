"""From a URL to a store, a rank and a world size, as torch.distributed.rendezvous does it.

A handler is a generator function: it is called with the URL, in which rank and world size stand as
parameters, and yields (store, rank, world size). The handlers of tcp://, env:// and file:// leave
the work to C++.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta

from unisono._core import Store, meet
from unisono._errors import UsageError

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = Iterator[tuple[Store, int, int]]

# What torch gives the stores of a rendezvous, unless UNISONO_TIMEOUT says otherwise.
DEFAULT_TIMEOUT = timedelta(minutes=30)

_handlers: dict[str, Callable[..., Meeting]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Meeting]) -> None:
    """Makes rendezvous() call `handler`, a generator function, for URLs of that scheme."""
    if scheme.lower() in _handlers:
        raise _refusal(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme.lower()] = handler


def rendezvous(url: str | bytes, rank: int = -1, world_size: int = -1, **kwargs: object) -> Meeting:
    """Meets the other ranks at `url`; next() on the result gives store, rank and world size.

    What the URL says already (rank, world_size) is left at -1. Other arguments, such as `timeout`,
    go to the handler.
    """
    if not isinstance(url, str | bytes):
        raise _refusal(f"`url` must be a string. {type(url)}: {url}")
    text = url.decode() if isinstance(url, bytes) else url
    for name, number in (("rank", rank), ("world_size", world_size)):
        if not hasattr(number, "__index__"):
            raise _refusal(f"`{name}` must be an integer. {number!r}")
    scheme = text.partition("://")[0].lower()  # as in all URLs
    full = _with_place(text, {"rank": int(rank), "world_size": int(world_size)})
    if scheme not in _handlers:
        raise _refusal(f"No rendezvous handler for {scheme}://; known are {sorted(_handlers)}")
    return _handlers[scheme](full, **kwargs)


def _refusal(what: str) -> UsageError:
    error = UsageError(f"unisono: {what}. [USAGE]")
    error.reason = "USAGE"
    return error


def _with_place(url: str, place: dict[str, int]) -> str:
    """`url` with the parts of `place` that are not -1 as parameters."""
    given = {name: number for name, number in place.items() if number != -1}
    if not given:
        return url
    head, mark, query = url.partition("?")
    if any(part.partition("=")[0] in place for part in query.split("&")):
        # The class is torch's.
        raise AssertionError(
            f"The url: {url} has node-specific arguments(rank, world_size) already."
        )
    parts = [query] if mark and query else []
    parts += [f"{name}={number}" for name, number in given.items()]
    return f"{head}?{'&'.join(parts)}"


def _meet(url: str, timeout: timedelta | float | None) -> Meeting:
    if timeout is None and "UNISONO_TIMEOUT" not in os.environ:
        timeout = DEFAULT_TIMEOUT
    yield meet(url, None, None, timeout)
    scheme = url.partition("://")[0]
    raise RuntimeError(f"Unable to perform re-rendezvous using {scheme}:// method")


def _network(url: str, timeout: timedelta | float | None = None, **_: object) -> Meeting:
    return _meet(url, timeout)


def _file(url: str, **_: object) -> Meeting:
    # A FileStore keeps its own default timeout, as in torch.
    yield meet(url, None, None, None)
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


register_rendezvous_handler("tcp", _network)
register_rendezvous_handler("env", _network)
register_rendezvous_handler("file", _file)
