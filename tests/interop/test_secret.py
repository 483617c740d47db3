"""PyTorch's clients and servers, which know of no secret, and ours, which may have one."""

from __future__ import annotations

import pytest

from tests.interop.conftest import TORCH_SERVERS, World
from tests.interop.driver import DistAuthError, DistNetworkError, Peer

LOOPS = ("libuv", "poll")
SECRET = {"UNISONO_AUTH_SECRET": "known to nobody else"}
SHORT = 1000  # milliseconds that a client has which will not succeed


def client_with_secret(world: World) -> Peer:
    return world.peer("unisono", SECRET)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_torch_client_is_served_by_loopback(world: World, loop: str) -> None:
    owner = client_with_secret(world).tcp(0, server=loop)
    owner.set("k", "v")

    assert world.peer("torch").tcp(owner.port).get("k") == b"v"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_torch_client_is_not_served_where_that_is_not_enough(world: World, loop: str) -> None:
    strict = world.peer("unisono", {**SECRET, "UNISONO_STORE_ADMIT_LOCAL": "0"})
    owner = strict.tcp(0, server=loop)
    owner.set("k", "v")

    torch = world.peer("torch")
    torch.hash()  # it has been loaded: what follows is bound by the patience of a call
    with pytest.raises(DistNetworkError):
        torch.tcp(owner.port, timeout=SHORT)

    assert client_with_secret(world).tcp(owner.port).get("k") == b"v"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_torch_client_is_served_by_a_server_without_one(world: World, loop: str) -> None:
    server = world.server(f"unisono-{loop}")
    with pytest.raises(DistAuthError):
        client_with_secret(world).tcp(server.port)

    server.owner.set("k", "v")
    assert server.client("torch").get("k") == b"v"


@pytest.mark.parametrize("kind", TORCH_SERVERS)
def test_a_client_with_a_secret_tells_a_torch_server_nothing(world: World, kind: str) -> None:
    server = world.server(kind)
    server.owner.set("k", "v")

    with pytest.raises(DistAuthError, match="does not speak unisono authentication"):
        client_with_secret(world).tcp(server.port)

    assert server.client("torch").get("k") == b"v"
