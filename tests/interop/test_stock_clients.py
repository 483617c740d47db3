"""What PyTorch's own tests expect of its server, asked of ours by stock PyTorch clients."""

from __future__ import annotations

import re
import signal
import socket

import pytest

from tests.interop.conftest import LIBRARIES, OUR_SERVERS, SERVERS, Server, World
from tests.interop.driver import DistStoreError, Store, later, start_unisono

LOOPS = ("libuv", "poll")

our_servers = pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def with_one_worker(world: World, loop: str) -> Server:
    """A server of ours that has counted its owner as the only worker."""
    return world.server(f"unisono-{loop}", workers=1)


def test_sums_values_and_their_number(with_one_worker: Server) -> None:
    client = with_one_worker.client("torch")

    for number in (1, 2, 3):
        client.add("sum", number)
    for number in range(1, 7):
        client.add("larger sum", number)
    for number in range(3):
        client.set(f"value {number}", f"text {number}")

    assert client.get("sum") == b"6"
    assert client.get("larger sum") == b"21"
    assert [client.get(f"value {i}") for i in range(3)] == [b"text 0", b"text 1", b"text 2"]
    assert client.num_keys() == 6  # the count of workers is one
    assert client.check(["sum", "value 0"])
    assert not client.check(["sum", "value 3"])

    client.set("-key", "a name like a deletion in a file")
    assert client.num_keys() == 7
    assert client.get("-key") == b"a name like a deletion in a file"
    assert client.delete_key("-key")
    assert client.num_keys() == 6


def test_the_number_of_keys_follows_every_change(with_one_worker: Server) -> None:
    client = with_one_worker.client("torch")
    client.set_timeout(0.2)
    counts = [client.num_keys()]

    client.add("a", 1)
    counts.append(client.num_keys())
    client.set("b", "v")
    counts.append(client.num_keys())
    client.set("b", "w")
    counts.append(client.num_keys())
    client.delete_key("b")
    counts.append(client.num_keys())

    assert counts == [1, 2, 3, 3, 2]
    with pytest.raises(DistStoreError, match="wait timeout after 200ms, keys: /b"):
        client.get("b")


@pytest.mark.parametrize("workers", [None, 6])
def test_workers_come_one_after_the_other(world: World, loop: str, workers: int | None) -> None:
    options = {} if workers is None else {"workers": workers}
    server = world.server(f"unisono-{loop}", wait=0, **options)
    server.owner.set("told", "by the owner")

    for number in range(5):
        client = server.client("torch", **options)
        assert client.get("told") == b"by the owner"
        client.set(f"from {number}", f"{number}")
        expected = "" if number == 0 else str(number - 1)
        assert client.compare_set("last", expected, str(number)) == str(number).encode()
        client.destroy()

    assert server.owner.multi_get([f"from {i}" for i in range(5)]) == [b"0", b"1", b"2", b"3", b"4"]
    assert server.owner.num_keys() == 7 + (workers is not None)


@our_servers
def test_four_meet_at_a_barrier(server: Server) -> None:
    stores = [server.owner, *(server.client("torch") for _ in range(3))]

    for each in [later(store.barrier, "b", 4, 10) for store in stores]:
        each.result()


@our_servers
def test_who_gives_up_goes_on(server: Server) -> None:
    client = server.client("torch")
    client.set("k", "v")

    for _ in range(5):
        client.set_timeout(0.1)
        with pytest.raises(
            DistStoreError, match="wait timeout after 100ms, keys: /nonexistent key"
        ):
            client.get("nonexistent key")
        client.set_timeout(10)
        assert client.get("k") == b"v"


@our_servers
def test_the_clients_repr_has_the_server_in_it(server: Server) -> None:
    port, libuv, _, text = server.client("torch").describe()

    assert (port, libuv) == (server.port, True)
    assert re.match(r"TCPStore\(client=TCPClient\(SocketImpl\(fd=\d+, ", text)
    assert text.endswith(f":{server.port})), server=<nullptr>)")


def test_tenants_of_one_process_share_a_server(world: World, loop: str) -> None:
    peer = world.peer("unisono")
    first = peer.tcp(0, server=loop, tenant=1)
    second = peer.tcp(first.port, server=loop, tenant=1)
    client = world.peer("torch").tcp(first.port)

    first.set("k", "v")
    assert second.get("k") == b"v"
    first.destroy()

    client.set("k", "w")
    assert client.get("k") == b"w"  # a stock set has no answer: this one says that it was done
    assert second.get("k") == b"w"


def test_a_bound_socket_is_taken_over(world: World, loop: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        peer = start_unisono(fds=[bound.fileno()])
        try:
            owner = peer.tcp(port, server=loop, fd=bound.fileno())
            client = world.peer("torch").tcp(port)
            client.set("k", "v")
            assert owner.get("k") == b"v"
        finally:
            peer.close()


def test_localhost_is_one_place_to_both(world: World, loop: str) -> None:
    owner = world.peer("unisono").tcp(0, server=loop, host="localhost")
    owner.set("k", "v")

    for library in LIBRARIES:
        assert world.peer(library).tcp(owner.port, host="localhost").get("k") == b"v"


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_client_that_is_stopped_in_a_wait_goes_on_waiting(server: Server, library: str) -> None:
    client, proxy = server.watched_client(library)
    waiting = later(client.get, "k")
    proxy.until_waiting()

    for _ in range(3):
        client.peer.stop()
        client.peer.signal(signal.SIGCONT)
    server.raw().fence()
    assert not waiting.done()

    server.owner.set("k", "v")
    assert waiting.result() == b"v"


def chatter(client: Store, number: int) -> list[bytes]:
    """What the stress below does in each thread."""
    for i in range(30):
        client.add("count", 1)
        client.set(f"{number}/{i}", f"{number}.{i}")
    return [client.get(f"{number}/{i}") for i in range(30)]


@our_servers
def test_a_crowd_of_torch_threads(server: Server) -> None:
    clients = [server.client("torch") for _ in range(8)]

    replies = [later(chatter, client, number) for number, client in enumerate(clients)]

    for number, reply in enumerate(replies):
        assert reply.result() == [f"{number}.{i}".encode() for i in range(30)]
    assert server.owner.get("count") == b"240"
    assert server.owner.num_keys() == 241
