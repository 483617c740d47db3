"""What goes over the wire, byte for byte: in both directions, between both libraries."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from tests.interop.conftest import (
    LIBRARIES,
    OUR_SERVERS,
    QUEUE_SERVERS,
    SERVERS,
    TORCH_SERVERS,
    Server,
    World,
)
from tests.interop.driver import DistStoreError, QueueEmptyError, Store, later
from tests.interop.proxy import Proxy
from tests.interop.wire import MAGIC, Query, Request, request

HELLO = request(Query.VALIDATE, MAGIC)


def ping(nonce: int) -> bytes:
    return request(Query.PING, nonce)


def give_up(client: Store, call: Callable[[], object]) -> None:
    """Makes a call that waits in vain."""
    client.set_timeout(0.05)
    with pytest.raises(DistStoreError, match="timeout after 50ms"):
        call()
    client.set_timeout(10)


def use_everything(client: Store, queues: bool) -> None:
    """Calls every operation, in every way that sends something else."""
    client.set("k", "v")
    client.get("k")
    give_up(client, lambda: client.get("missing"))
    client.compare_set("k", "v", "w")
    client.add("n", 1)
    client.check(["k", "n"])
    client.wait(["k"])
    give_up(client, lambda: client.wait(["missing"]))
    client.append("k", "x")
    client.multi_set(["a", "b"], ["1", "2"])
    client.multi_get(["a", "b"])
    client.delete_key("a")
    client.num_keys()
    client.list_keys()
    client.barrier("alone", 1)
    give_up(client, lambda: client.barrier("two", 2))
    if queues:
        client.queue_push("q", "e")
        client.queue_len("q")
        client.queue_pop("q")
        with pytest.raises(QueueEmptyError):
            client.queue_pop("q", block=False)
        give_up(client, lambda: client.queue_pop("q"))
    clone = client.clone()
    clone.set("k", "by the clone")
    clone.num_keys()  # when this is answered, all has been recorded


@pytest.mark.parametrize(
    ("server", "library"),
    [(kind, "unisono") for kind in TORCH_SERVERS] + [(kind, "torch") for kind in OUR_SERVERS],
    indirect=True,
)
def test_between_the_libraries_only_stock_requests_are_sent(server: Server, library: str) -> None:
    client, proxy = server.watched_client(library)
    queues = server.kind in QUEUE_SERVERS

    use_everything(client, queues)

    requests = proxy.requests()
    assert not [each for each in requests if each.private]
    unused = set() if queues else {Query.QUEUE_PUSH, Query.QUEUE_POP, Query.QUEUE_LEN}
    assert {each.query for each in requests} == set(Query) - unused
    for recording in proxy.recordings:
        assert recording.sent[:10] == HELLO + ping(client.peer.pid)
        assert recording.received[:4] == struct.pack("<I", client.peer.pid)
        queries = [each.query for each in recording.requests()]
        assert queries.count(Query.VALIDATE) == 1
    # Everything was understood: nothing is left over that begins no request.
    sent = sum(len(recording.sent) for recording in proxy.recordings)
    assert sent == sum(len(request(each.query, *each.parts)) for each in requests)


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_our_client_uses_the_short_forms_with_our_server(server: Server) -> None:
    client, proxy = server.watched_client("unisono")
    server.owner.set("k", "v")
    before = len(proxy.requests())

    assert client.get("k") == b"v"

    assert proxy.requests()[before:] == [Request(Query.GET, (b"/k",), private=True)]


K, V, W = b"/k", b"v", b"w"
WAIT_FOR_K = request(Query.WAIT, [K])

# Operation, and what it sends: from the same state (k=v, one element in q) with either client.
OPERATIONS: dict[str, tuple[Callable[[Store], object], bytes]] = {
    "set": (lambda s: s.set("k", "w"), request(Query.SET, K, W)),
    "get": (lambda s: s.get("k"), WAIT_FOR_K + request(Query.GET, K)),
    "compare_set": (lambda s: s.compare_set("k", "v", "w"), request(Query.COMPARE_SET, K, V, W)),
    "add": (lambda s: s.add("n", -3), request(Query.ADD, b"/n", -3)),
    "check": (lambda s: s.check(["k", "x"]), request(Query.CHECK, [K, b"/x"])),
    "wait": (lambda s: s.wait(["k"]), WAIT_FOR_K),
    "num_keys": (lambda s: s.num_keys(), request(Query.GETNUMKEYS)),
    "delete_key": (lambda s: s.delete_key("k"), request(Query.DELETE_KEY, K)),
    "append": (lambda s: s.append("k", "w"), request(Query.APPEND, K, W)),
    "multi_get": (
        lambda s: s.multi_get(["k", "k"]),
        request(Query.WAIT, [K, K]) + request(Query.MULTI_GET, [K, K]),
    ),
    "multi_set": (
        lambda s: s.multi_set(["k", "j"], ["v", "w"]),
        request(Query.MULTI_SET, [K, V, b"/j", W]),
    ),
    "list_keys": (lambda s: s.list_keys(), request(Query.LIST_KEYS)),
    "barrier": (lambda s: s.barrier("b", 1), request(Query.BARRIER, b"/b", 1)),
    "queue_push": (lambda s: s.queue_push("q", "w"), request(Query.QUEUE_PUSH, b"/q", W)),
    "queue_pop": (
        lambda s: s.queue_pop("q"),
        request(Query.WAIT, [b"/q"]) + request(Query.QUEUE_POP, b"/q"),
    ),
    "queue_pop at once": (
        lambda s: s.queue_pop("q", block=False),
        request(Query.QUEUE_POP, b"/q"),
    ),
    "queue_len": (lambda s: s.queue_len("q"), request(Query.QUEUE_LEN, b"/q")),
}


def sent_by(client: Store, proxy: Proxy, operation: Callable[[Store], object]) -> bytes:
    """What an operation sends, between two others that only return when all has been answered."""
    client.num_keys()
    before = len(proxy.recordings[0].sent)
    operation(client)
    client.num_keys()
    return proxy.recordings[0].sent[before:].removesuffix(request(Query.GETNUMKEYS))


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("server", ["torch-libuv"], indirect=True)
@pytest.mark.parametrize("name", OPERATIONS)
def test_both_clients_send_the_same_bytes_to_a_stock_server(
    server: Server, library: str, name: str
) -> None:
    operation, expected = OPERATIONS[name]
    client, proxy = server.watched_client(library)
    client.set("k", "v")
    client.queue_push("q", "e")

    assert sent_by(client, proxy, operation) == expected


# A conversation: what is sent, what comes back. Recorded between PyTorch 2.13 clients and servers.
ABOUT_KEYS = """
    0d 34120000                                                                > 34120000
    01 0400000000000000 2f666f6f 0300000000000000 626172                       >
    03 0400000000000000 2f666f6f                            > 0300000000000000 626172
    02 0400000000000000 2f666f6f 0300000000000000 626172 0300000000000000 62617a
                                                            > 0300000000000000 62617a
    02 0400000000000000 2f666f6f 0000000000000000 0300000000000000 626172
                                                            > 0300000000000000 62617a
    02 0200000000000000 2f78 0100000000000000 31 0100000000000000 32
                                                            > 0100000000000000 31
    04 0200000000000000 2f6e 0500000000000000               > 0500000000000000
    04 0200000000000000 2f6e ffffffffffffffff               > 0400000000000000
    04 0500000000000000 696e69742f 0100000000000000         > 0100000000000000
    05 0100000000000000 0400000000000000 2f666f6f           > 00
    05 0200000000000000 0400000000000000 2f666f6f 0200000000000000 2f78     > 01
    05 0000000000000000                                     > 00
    06 0100000000000000 0400000000000000 2f666f6f           > 00
    0c                                                      > 01
    07                                                      > 0300000000000000
    09 0400000000000000 2f666f6f 0100000000000000 21        >
    0b 0200000000000000 0200000000000000 2f61 0100000000000000 31
                        0200000000000000 2f62 0200000000000000 3232         >
    0a 0300000000000000 0200000000000000 2f61 0200000000000000 2f62 0400000000000000 2f666f6f
                                                            > 0100000000000000 31
                        0200000000000000 3232 0400000000000000 62617a21
    08 0400000000000000 2f666f6f                            > 0100000000000000
    08 0400000000000000 2f666f6f                            > 0000000000000000
    12 0200000000000000 2f63 0100000000000000               > 00
    06 0100000000000000 0200000000000000 2f78               >
    0c                                                      > 01
    12 0200000000000000 2f64 0200000000000000               >
    0c                                                      > 01
    08 0200000000000000 2f61                                > 0100000000000000
    08 0200000000000000 2f62                                > 0100000000000000
    08 0200000000000000 2f63                                > 0100000000000000
    08 0200000000000000 2f64                                > 0100000000000000
    08 0200000000000000 2f6e                                > 0100000000000000
    11                              > 0100000000000000 0500000000000000 696e69742f
"""

ABOUT_QUEUES = """
    10 0200000000000000 2f71                                > 0000000000000000
    0f 0200000000000000 2f71                                > 0000000000000000
    0e 0200000000000000 2f71 0100000000000000 76            >
    0e 0200000000000000 2f71 0000000000000000               >
    10 0200000000000000 2f71                                > 0200000000000000
    05 0100000000000000 0200000000000000 2f71               > 00
    0f 0200000000000000 2f71                   > 0200000000000000 0100000000000000 76
    0f 0200000000000000 2f71                   > 0100000000000000 0000000000000000
    05 0100000000000000 0200000000000000 2f71               > 01
    07                                                      > 0000000000000000
"""

CONVERSATIONS = {"keys": ABOUT_KEYS, "queues": ABOUT_QUEUES}


def turns(conversation: str) -> list[tuple[bytes, bytes]]:
    """The lines of a conversation; one that goes on in the next ends without an answer there."""
    result: list[tuple[bytes, bytes]] = []
    sent, answer = "", None
    for line in conversation.strip().splitlines():
        begins = line.startswith("    ") and not line.startswith("     ")
        if (begins or not result) and answer is not None:
            result.append((bytes.fromhex(sent), bytes.fromhex(answer)))
            sent, answer = "", None
        before, arrow, after = line.partition(">")
        if answer is None:
            sent += before
            answer = after if arrow else None
        else:
            answer += before
    assert answer is not None
    return [*result, (bytes.fromhex(sent), bytes.fromhex(answer))]


@pytest.mark.parametrize(
    ("server", "about"),
    [(kind, "keys") for kind in SERVERS] + [(kind, "queues") for kind in QUEUE_SERVERS],
    indirect=["server"],
)
def test_all_servers_give_the_same_answers(server: Server, about: str) -> None:
    client = server.raw()

    for sent, answer in turns(CONVERSATIONS[about]):
        client.send(sent)
        assert client.receive(len(answer)) == answer, f"the answer to {sent.hex(' ')}"
        client.fence()  # nothing else came

    assert client.silent()


def test_our_client_takes_a_server_that_only_says_hello(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = world.peer("unisono")
        opening = later(peer.tcp, listener.getsockname()[1])
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            assert connection.recv(5, socket.MSG_WAITALL) == bytes.fromhex("00 ce f7 85 3c")
            asked = connection.recv(5, socket.MSG_WAITALL)
            assert asked == ping(peer.pid)
            connection.sendall(asked[1:])

    opening.result()
