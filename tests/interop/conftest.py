"""Servers and clients of both libraries, each in a process of its own, gone after the test."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.interop.driver import Peer, Store, start_torch, start_unisono
from tests.interop.proxy import Proxy
from tests.interop.wire import RawClient

# Longer than any test may take; then the stacks are shown and the run ends.
WATCHDOG = 120.0

MAKERS = {"unisono": start_unisono, "torch": start_torch}
LIBRARIES = tuple(MAKERS)
OTHER = {"unisono": "torch", "torch": "unisono"}
OUR_SERVERS = ("unisono-libuv", "unisono-poll")
TORCH_SERVERS = ("torch-libuv", "torch-poll")
SERVERS = OUR_SERVERS + TORCH_SERVERS
QUEUE_SERVERS = (*OUR_SERVERS, "torch-libuv")  # PyTorch's poll server has no queues


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without PyTorch, one skipped test speaks for all of this folder."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if not here or importlib.util.find_spec("torch") is not None:
        return
    why = f"PyTorch is not installed, and {len(here)} tests need it: run scripts/setup.sh"
    here[0].add_marker(pytest.mark.skip(reason=why))
    items[:] = [item for item in items if item not in here[1:]]
    config.hook.pytest_deselected(items=here[1:])


@pytest.fixture(scope="session")
def real_stderr(pytestconfig: pytest.Config) -> Iterator[IO[str]]:
    """Standard error as it was before pytest captured it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        copy = os.dup(2)
    with os.fdopen(copy, "w") as stderr:
        yield stderr


@pytest.fixture(autouse=True)
def _watchdog(real_stderr: IO[str]) -> Iterator[None]:
    faulthandler.dump_traceback_later(WATCHDOG, file=real_stderr, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


class World:
    """Makes processes, stores, proxies and raw clients for one test, and ends them after it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._clients: dict[str, Peer] = {}

    def peer(self, library: str, environment: dict[str, str] | None = None) -> Peer:
        """A new process that uses that library."""
        peer = MAKERS[library](environment)
        self._stack.callback(peer.close)
        return peer

    def shared_peer(self, library: str) -> Peer:
        """The process of that library that holds whatever need not be alone."""
        if library not in self._clients:
            self._clients[library] = self.peer(library)
        return self._clients[library]

    def server(self, kind: str, **options: int | str) -> Server:
        """A store server, such as "torch-poll", in a process of its own."""
        library, loop = kind.split("-")
        peer = self.peer(library)
        return Server(self, kind, peer, peer.tcp(0, server=loop, **options))

    def proxy(self, port: int) -> Proxy:
        proxy = Proxy(port)
        self._stack.callback(proxy.close)
        return proxy

    def raw(self, port: int, hello: bool = True) -> RawClient:
        return self._stack.enter_context(RawClient(port, hello))


@dataclass
class Server:
    """A store server, and the means to reach it."""

    world: World
    kind: str
    peer: Peer
    owner: Store

    @property
    def port(self) -> int:
        return self.owner.port

    def client(self, library: str, **options: int | str) -> Store:
        """A client in the process that the test's clients of that library share."""
        return self.world.shared_peer(library).tcp(self.port, **options)

    def lone_client(self, library: str, **options: int | str) -> Store:
        """A client in a process of its own."""
        return self.world.peer(library).tcp(self.port, **options)

    def watched_client(self, library: str, **options: int | str) -> tuple[Store, Proxy]:
        """A client, and the proxy through which it is connected."""
        proxy = self.world.proxy(self.port)
        return self.world.shared_peer(library).tcp(proxy.port, **options), proxy

    def raw(self, hello: bool = True) -> RawClient:
        return self.world.raw(self.port, hello)


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, world: World) -> Server:
    """Each kind of server in turn; a test may choose others by indirect parametrization."""
    kind: str = request.param
    return world.server(kind)


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    """The library of the client under test."""
    name: str = request.param
    return name


@pytest.fixture
def client(server: Server, library: str) -> Store:
    """A client of the server; its library is the other half of the matrix."""
    return server.client(library)
