"""Where ours differ from PyTorch's on purpose: what is wrong there is right here.

Each test shows ours to be right. Where it costs no time, it also shows what PyTorch 2.13 does; when
such an assertion fails after an upgrade of PyTorch, PyTorch has changed and the note can go.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.conftest import LIBRARIES, OUR_SERVERS, QUEUE_SERVERS, SERVERS, Server, World
from tests.interop.driver import (
    PATIENCE,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
    Store,
    free_port,
    later,
)
from tests.interop.wire import MAGIC, Query, RawClient, blob, request

STOP_WAITING = b"\x00"
EMPTY = blob(b"")

our_servers = pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
queue_servers = pytest.mark.parametrize("server", QUEUE_SERVERS, indirect=True)


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    begin = time.monotonic()
    yield
    took = time.monotonic() - begin
    assert took < seconds, f"took {took:.2f} s"


def start_wait(server: Server, *keys: bytes) -> RawClient:
    """A client whose wait for these keys the server knows of."""
    waiter = server.raw()
    waiter.send(request(Query.WAIT, list(keys)))
    server.raw().fence()
    return waiter


def was_woken(server: Server, waiter: RawClient) -> bool:
    server.owner.num_keys()  # what the owner wrote has been done
    server.raw().fence()  # and whatever the server had to say has been said
    return not waiter.silent()


def test_compare_set_that_stores_wakes(server: Server) -> None:
    waiter = start_wait(server, b"/k")

    server.owner.compare_set("k", "", "v")

    if server.kind == "torch-poll":
        assert not was_woken(server, waiter)
    else:
        assert waiter.receive(1) == STOP_WAITING
    assert server.owner.get("k") == b"v"


def test_compare_set_that_stores_nothing_wakes_nobody(server: Server) -> None:
    waiter = start_wait(server, b"/k")

    server.owner.compare_set("k", "something", "v")

    assert was_woken(server, waiter) == (server.kind == "torch-libuv")


def test_a_wait_for_two_keys_wants_both_at_one_moment(server: Server) -> None:
    waiter = start_wait(server, b"/a", b"/b")
    server.owner.set("a", "1")
    server.owner.delete_key("a")

    server.owner.set("b", "2")

    if server.kind in OUR_SERVERS:
        assert not was_woken(server, waiter)
        server.owner.set("a", "1")
    assert waiter.receive(1) == STOP_WAITING


@queue_servers
def test_a_pop_that_was_woken_is_not_woken_again_for_another_key(server: Server) -> None:
    waiter = start_wait(server, b"/q")
    server.owner.queue_push("q", "1")
    assert waiter.receive(1) == STOP_WAITING
    assert waiter.ask(Query.QUEUE_POP, b"/q", size=17).endswith(b"1")
    waiter.send(request(Query.WAIT, [b"/k"]))
    server.raw().fence()

    server.owner.queue_push("q", "2")

    assert was_woken(server, waiter) == (server.kind == "torch-libuv")


@queue_servers
def test_a_queue_that_holds_something_counts_in_a_wait(server: Server) -> None:
    server.owner.queue_push("q", "e")
    assert server.owner.queue_len("q") == 1
    waiter = start_wait(server, b"/q", b"/k")

    server.owner.set("k", "v")

    assert was_woken(server, waiter) == (server.kind in OUR_SERVERS)


def test_an_arrival_at_a_barrier_makes_its_key(server: Server) -> None:
    waiter = start_wait(server, b"/b")

    with pytest.raises(DistStoreError):
        server.owner.barrier("b", 2, 0.01)

    assert server.owner.check(["b"])
    assert was_woken(server, waiter) == (server.kind in OUR_SERVERS)


@our_servers
def test_a_barrier_is_not_released_by_other_writes(server: Server) -> None:
    waiting = server.raw()
    waiting.send(request(Query.BARRIER, b"/b", 3))
    server.raw().fence()

    server.owner.set("b", "1")
    assert not was_woken(server, waiting)

    server.client("torch").clone().add("b", 1)
    server.owner.barrier("b", 3)
    assert waiting.receive(1) == STOP_WAITING


def test_a_missing_key_reads_as_empty(server: Server) -> None:
    client = server.raw()

    client.send(request(Query.GET, b"/missing"))

    if server.kind == "torch-poll":
        assert client.closed_by_server()
    else:
        assert client.receive(8) == EMPTY
        assert client.ask(Query.MULTI_GET, [b"/x", b"/y"], size=16) == EMPTY + EMPTY


def test_nothing_is_served_before_the_hello(server: Server) -> None:
    """PyTorch's libuv server lets in whoever sends the first byte by itself."""
    command = request(Query.SET, b"/k", b"v")
    client = server.raw(hello=False)
    client.send(command[:1])
    server.raw().fence()

    if server.kind == "torch-libuv":
        client.send(command[1:])
        client.fence()
    else:
        assert client.closed_by_server()

    assert server.owner.check(["k"]) == (server.kind == "torch-libuv")


@queue_servers
def test_a_hello_may_come_in_pieces(server: Server) -> None:
    hello = request(Query.VALIDATE, MAGIC)
    client = server.raw(hello=False)
    client.send(hello[:2])
    server.raw().fence()

    client.send(hello[2:])

    if server.kind == "torch-libuv":
        assert client.closed_by_server()
    else:
        client.fence()


@queue_servers
def test_multi_set_happens_all_at_once(server: Server) -> None:
    """PyTorch's poll server is left out: it serves nobody until the command is complete."""
    command = request(Query.MULTI_SET, [b"/a", b"1", b"/b", b"2"])
    client = server.raw()
    client.send(command[:-1])
    server.raw().fence()

    assert server.owner.check(["a"]) == (server.kind == "torch-libuv")
    server.owner.set("a", "between")
    assert server.owner.get("a") == b"between"
    client.send(command[-1:])
    client.fence()

    assert server.owner.multi_get(["a", "b"]) == [b"1", b"2"]


@our_servers
def test_half_a_request_holds_up_nobody(server: Server, library: str) -> None:
    server.raw().send(request(Query.SET, b"/k", b"value")[:-3])
    server.raw(hello=False).send(b"\x00")

    with takes_at_most(5):
        client = server.client(library)
        client.set("k", "v")
        assert client.get("k") == b"v"


def test_add_to_a_text_is_refused_and_costs_nothing(server: Server, library: str) -> None:
    """The protocol has no way to say no; between ours there is one."""
    client = server.client(library)
    client.set("text", "abc")

    if library == "unisono" and server.kind in OUR_SERVERS:
        with pytest.raises(DistStoreError, match="'abc' is not a number"):
            client.add("text", 1)
        assert client.add("number", 1) == 1
    else:
        with pytest.raises(DistNetworkError):
            client.add("text", 1)

    assert server.owner.get("text") == b"abc"


@our_servers
def test_a_sum_beyond_64_bits_is_refused(server: Server) -> None:
    client = server.client("unisono")
    client.add("n", 2**63 - 1)

    with pytest.raises(DistStoreError, match="9223372036854775807"):
        client.add("n", 1)

    assert client.get("n") == str(2**63 - 1).encode()


def test_a_thread_that_waits_holds_up_no_other(server: Server, library: str) -> None:
    """PyTorch's client lets one thread in at a time; who waits keeps the others out."""
    client, proxy = server.watched_client(library)
    client.set_timeout(1 if library == "torch" else PATIENCE)
    waiting = later(client.get, "k")
    proxy.until_waiting()

    client.set("k", "v")

    if library == "torch":
        with pytest.raises(DistStoreError):
            waiting.result()
    else:
        assert waiting.result() == b"v"


@queue_servers
def test_a_blocking_pop_never_says_empty(server: Server) -> None:
    """With PyTorch's client, who comes second after a push gets QueueEmptyError now and then."""
    consumers = [server.client("unisono") for _ in range(3)]

    def consume(client: Store) -> list[bytes]:
        elements = []
        while (element := client.queue_pop("q")) != b"end":
            elements.append(element)
        return elements

    work = [later(consume, consumer) for consumer in consumers]
    producer = server.client("torch")
    for i in range(150):
        producer.queue_push("q", str(i))
    for _ in consumers:
        producer.queue_push("q", "end")

    taken = [element for each in work for element in each.result()]
    assert sorted(map(int, taken)) == list(range(150))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_key_of_the_name_of_a_queue_is_not_an_element(world: World, library: str) -> None:
    server = world.server("unisono-libuv")
    client = server.client(library)
    client.set_timeout(0.2)
    client.set("q", "a plain key")

    error = QueueEmptyError if library == "torch" else DistStoreError
    with pytest.raises(error) as raised:
        client.queue_pop("q")

    assert ("timeout" in str(raised.value)) == (library == "unisono")


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_timeout_of_zero_is_one_look(server: Server) -> None:
    client = server.client("unisono")
    client.set("k", "v")
    client.set_timeout(0)

    for _ in range(5):
        assert client.get("k") == b"v"
        client.wait(["k"])
        assert client.multi_get(["k"]) == [b"v"]
        with pytest.raises(DistStoreError, match="timeout after 0ms"):
            client.get("missing")
    client.barrier("b", 1)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_stopped_server_does_not_outlast_a_timeout(server: Server) -> None:
    """PyTorch's client waits for the answer for ever, whatever its timeout."""
    client = server.client("unisono")
    client.set_timeout(0.5)
    client.set("k", "v")
    server.peer.stop()

    try:
        for call in (client.num_keys, lambda: client.get("k"), client.clone):
            with takes_at_most(5), pytest.raises((DistStoreError, DistNetworkError)) as error:
                call()
            assert "timed out" in str(error.value) or "timeout" in str(error.value)
    finally:
        server.peer.signal(signal.SIGCONT)

    client.set_timeout(PATIENCE)
    assert client.get("k") == b"v"


def test_a_silent_peer_is_no_store(world: World) -> None:
    """PyTorch's constructor waits for ever for somebody who accepts and says nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        takes_at_most(5),
        pytest.raises(DistNetworkError, match="timed out"),
    ):
        world.peer("unisono").tcp(listener.getsockname()[1], timeout=300)


def test_a_closed_port_is_given_up_in_time(world: World) -> None:
    text = "client socket has timed out after 300ms"

    with takes_at_most(5), pytest.raises(DistNetworkError, match=text):
        world.peer("unisono").tcp(free_port(), timeout=300)


@pytest.mark.parametrize("library", LIBRARIES)
def test_add_wakes_in_a_hash_store(world: World, library: str) -> None:
    store = world.peer(library).hash()
    store.set_timeout(1 if library == "torch" else PATIENCE)  # theirs sleeps it out

    with takes_at_most(PATIENCE / 2):
        waiting = later(store.get, "n")
        store.add("n", 1)
        assert waiting.result() == b"1"


@pytest.mark.parametrize("library", LIBRARIES)
def test_append_of_what_is_already_there(world: World, tmp_path: Path, library: str) -> None:
    store = world.peer(library).file(tmp_path / "store")

    for _ in range(3):
        store.append("k", "ab")

    assert store.get("k") == (b"ab" if library == "torch" else b"ababab")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_store_tells_the_truth_about_keys(
    world: World, tmp_path: Path, library: str
) -> None:
    store = world.peer(library).file(tmp_path / "store")
    store.set("k", "v")

    wrong = library == "torch"
    assert store.delete_key("unknown") == wrong
    assert sorted(store.list_keys()) == (["efcount/", "k"] if wrong else ["k"])
    with pytest.raises(NotImplementedError):
        store.queue_push("q", "e")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_store_counts_its_timeout_in_milliseconds(
    world: World, tmp_path: Path, library: str
) -> None:
    store = world.peer(library).file(tmp_path / "store")
    shortest = PATIENCE

    for _ in range(1 if library == "torch" else 5):  # a busy host may delay any one of them
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match=r"[Tt]imeout"):
            store.wait(["never"], 0.05)
        shortest = min(shortest, time.monotonic() - begin)

    assert shortest >= 1 if library == "torch" else shortest < 0.9


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_prefix_lists_only_what_is_under_it(world: World, library: str) -> None:
    store = world.peer(library).hash()
    under = store.prefixed("p")
    for key in ("p/a", "p/b/c", "pq/x"):
        store.set(key, "v")

    expected = ["/x", "a", "b/c"] if library == "torch" else ["a", "b/c"]
    assert sorted(under.list_keys()) == expected

    store.set("p", "v")
    if library == "unisono":
        assert sorted(under.list_keys()) == expected
    else:
        with pytest.raises(IndexError):
            under.list_keys()


@our_servers
def test_a_prefixed_barrier_obeys_the_timeout_of_its_store(server: Server) -> None:
    """PyTorch's waits 300 seconds, whatever set_timeout said."""
    store = server.client("unisono").prefixed("p")
    store.set_timeout(0.1)

    with takes_at_most(5), pytest.raises(DistStoreError, match="timeout after 100ms"):
        store.barrier("b", 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_fallback_barrier_for_nobody_returns(world: World, tmp_path: Path, library: str) -> None:
    store = world.peer(library).file(tmp_path / "store")

    if library == "unisono":
        store.barrier("b", 0, 0.1)
    else:
        with pytest.raises(RuntimeError, match=r"[Tt]imeout"):
            store.barrier("b", 0, 0.1)
