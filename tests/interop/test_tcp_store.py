"""Every operation of a TCPStore, for our and PyTorch's clients on our and PyTorch's servers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.interop.conftest import OTHER, OUR_SERVERS, QUEUE_SERVERS, SERVERS, Server
from tests.interop.driver import (
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
    Store,
    eventually,
    later,
)

ALL_BYTES = bytes(range(256))
LARGEST_VALUE = 8 * 1024 * 1024
LONGEST_KEY = 8191  # the "/" that the client puts in front is one more

with_queues = pytest.mark.parametrize("server", QUEUE_SERVERS, indirect=True)


def test_a_value_is_read_back_until_it_is_overwritten(client: Store) -> None:
    client.set("k", "first")
    assert client.get("k") == b"first"

    client.set("k", "second")
    assert client.get("k") == b"second"


def test_an_empty_value_is_a_value(client: Store) -> None:
    client.set("k", "")

    assert client.check(["k"])
    assert client.get("k") == b""
    assert client.compare_set("k", "", "v") == b"v"


def test_keys_and_values_are_any_bytes(client: Store) -> None:
    client.set(ALL_BYTES, ALL_BYTES[::-1])

    assert client.get(ALL_BYTES) == ALL_BYTES[::-1]
    assert client.delete_key(ALL_BYTES)


def test_both_libraries_mean_the_same_key(server: Server, library: str) -> None:
    client, other = server.client(library), server.client(OTHER[library])

    for key in (b"", b"/", b"//a", b"a/b", "ключ".encode(), ALL_BYTES):
        client.set(key, b"of " + key)
        assert other.get(key) == b"of " + key

    assert client.num_keys() == other.num_keys() == 6


def test_compare_set_stores_only_over_what_is_expected(client: Store) -> None:
    assert client.compare_set("k", "wrong", "v") == b"wrong"
    assert not client.check(["k"])

    assert client.compare_set("k", "", "first") == b"first"
    assert client.compare_set("k", "wrong", "v") == b"first"
    assert client.compare_set("k", "", "v") == b"first"
    assert client.compare_set("k", "first", "second") == b"second"
    assert client.get("k") == b"second"

    assert client.compare_set("k", "second", "") == b""
    assert client.get("k") == b""


def test_add_counts_in_decimal_text(client: Store) -> None:
    assert client.add("n", 5) == 5
    assert client.add("n", -7) == -2
    assert client.add("n", 0) == -2
    assert client.get("n") == b"-2"

    client.set("n", str(2**62))
    assert client.add("n", 2**62 - 1) == 2**63 - 1
    assert client.add("zero", 0) == 0
    assert client.check(["zero"])


def test_check_is_true_when_all_keys_are_there(client: Store) -> None:
    client.set("a", "1")
    client.set("b", "2")

    assert client.check([])
    assert client.check(["a", "b", "a"])
    assert not client.check(["a", "missing", "b"])


def test_wait_returns_when_all_keys_are_there(client: Store) -> None:
    client.set("a", "1")
    client.add("b", 2)

    client.wait([])
    client.wait(["a", "b", "a"])
    client.wait(["a"], 0.5)


@pytest.mark.parametrize("call", ["wait", "wait for", "get", "multi_get"])
def test_a_wait_that_gives_up_names_its_keys_and_leaves_the_client_usable(
    client: Store, call: str
) -> None:
    client.set("here", "1")
    client.set_timeout(0.1 if call != "wait for" else 60)
    calls: dict[str, Callable[[], object]] = {
        "wait": lambda: client.wait(["here", "gone"]),
        "wait for": lambda: client.wait(["here", "gone"], 0.1),
        "get": lambda: client.get("gone"),
        "multi_get": lambda: client.multi_get(["here", "gone"]),
    }

    keys = "/gone" if call == "get" else "/here, /gone"
    with pytest.raises(DistStoreError, match=f"wait timeout after 100ms, keys: {keys}"):
        calls[call]()

    client.set_timeout(10)
    client.set("gone", "back")
    client.wait(["here", "gone"])
    assert client.get("gone") == b"back"
    assert client.multi_get(["here", "gone"]) == [b"1", b"back"]


def test_delete_key_tells_whether_it_was_there(client: Store) -> None:
    client.set("k", "v")

    assert client.delete_key("k")
    assert not client.delete_key("k")
    assert not client.check(["k"])
    assert client.compare_set("k", "", "new") == b"new"


def test_num_keys_counts_and_list_keys_names_what_is_set(client: Store) -> None:
    assert (client.num_keys(), client.list_keys()) == (0, [])

    client.set("a", "1")
    client.add("b/c", 1)
    client.append("d", "x")
    assert (client.num_keys(), sorted(client.list_keys())) == (3, ["a", "b/c", "d"])

    client.delete_key("a")
    assert (client.num_keys(), sorted(client.list_keys())) == (2, ["b/c", "d"])


def test_append_makes_or_extends_a_value(client: Store) -> None:
    client.append("k", "po")
    client.append("k", "")
    client.append("k", "tato")
    assert client.get("k") == b"potato"

    client.append("same", "x")
    client.append("same", "x")
    assert client.get("same") == b"xx"


def test_multi_set_and_multi_get_keep_the_order(client: Store) -> None:
    client.multi_set(["b", "a", "c"], ["2", "", ALL_BYTES])

    assert client.multi_get(["c", "a", "b", "c"]) == [ALL_BYTES, b"", b"2", ALL_BYTES]
    assert client.multi_get([]) == []
    client.multi_set([], [])


def test_a_thousand_keys_at_once(client: Store) -> None:
    keys = [f"key {i:04}" for i in range(1000)]
    values = [f"value {i}" * (i % 7) for i in range(1000)]

    client.multi_set(keys, values)

    assert client.num_keys() == 1000
    assert client.check(keys)
    client.wait(keys)
    assert client.multi_get(keys[::-1]) == [value.encode() for value in values[::-1]]
    assert sorted(client.list_keys()) == keys


def test_the_largest_value_and_the_longest_key(client: Store) -> None:
    value = ALL_BYTES * (LARGEST_VALUE // 256)
    key = "k" * LONGEST_KEY

    client.set(key, value)

    assert client.get(key) == value


@with_queues
def test_queues_are_first_in_first_out(client: Store) -> None:
    assert client.queue_len("q") == 0
    assert not client.check(["q"])

    for element in ("a", "", "c"):
        client.queue_push("q", element)

    assert client.queue_len("q") == 3
    assert client.check(["q"])
    client.wait(["q"])
    assert [client.queue_pop("q") for _ in range(3)] == [b"a", b"", b"c"]
    assert client.queue_len("q") == 0
    assert not client.check(["q"])
    assert client.num_keys() == 0


@with_queues
def test_an_empty_queue_is_told_apart(client: Store) -> None:
    with pytest.raises(QueueEmptyError, match="empty"):
        client.queue_pop("q", block=False)

    client.set_timeout(0.05)
    with pytest.raises(DistStoreError, match="timeout after 50ms"):
        client.queue_pop("q")

    client.queue_push("q", "late")
    assert client.queue_pop("q", block=False) == b"late"


@with_queues
def test_a_queue_and_a_key_of_one_name_do_not_mix(client: Store) -> None:
    client.set("x", "value")
    client.queue_push("x", "element")

    assert client.get("x") == b"value"
    assert client.delete_key("x")
    assert client.queue_len("x") == 1
    assert client.queue_pop("x") == b"element"


@pytest.mark.parametrize("server", ["torch-poll"], indirect=True)
@pytest.mark.parametrize("call", ["push", "pop", "len"])
def test_a_server_without_queues_is_named_and_stays_usable(server: Server, call: str) -> None:
    client = server.client("unisono")
    client.set("k", "v")
    calls: dict[str, Callable[[], object]] = {
        "push": lambda: client.queue_push("q", "e"),
        "pop": lambda: client.queue_pop("q", block=False),
        "len": lambda: client.queue_len("q"),
    }

    for _ in range(2):
        with pytest.raises(NotImplementedError, match="queues"):
            calls[call]()

    assert client.get("k") == b"v"


def test_a_barrier_lets_all_go_together(server: Server, library: str) -> None:
    ours, theirs = server.client(library), server.client(OTHER[library])
    ours.barrier("alone", 1)

    first = later(ours.barrier, "b", 3)
    eventually(lambda: theirs.check(["b"]), "the first has arrived")
    second = later(theirs.clone().barrier, "b", 3)
    eventually(lambda: server.owner.get("b") == b"2", "the second has arrived")
    assert not first.done()
    assert not second.done()

    server.owner.barrier("b", 3)
    first.result()
    second.result()
    assert server.owner.get("b") == b"3"


def test_a_barrier_that_gives_up_leaves_the_client_usable(client: Store) -> None:
    with pytest.raises(DistStoreError, match="barrier timeout after 100ms, key: b"):
        client.barrier("b", 2, 0.1)
    client.set_timeout(0.05)
    with pytest.raises(DistStoreError, match="barrier timeout after 50ms, key: c"):
        client.barrier("c", 2)

    client.set_timeout(10)
    client.set("k", "v")
    assert client.get("k") == b"v"
    client.barrier("b", 2)  # those who gave up have been counted


def test_a_clone_is_another_client_of_the_same_data(client: Store) -> None:
    client.set_timeout(7)
    client.set("k", "v")

    clone = client.clone()
    assert clone.get("k") == b"v"
    assert clone.timeout == 7
    clone.set_timeout(8)
    assert client.timeout == 7

    client.destroy()
    clone.set("k", "w")
    assert clone.get("k") == b"w"


def test_prefixes_nest_alike(server: Server, library: str) -> None:
    client, other = server.client(library), server.client(OTHER[library])
    nested = client.prefixed("b").prefixed("a")

    nested.set("k", "v")
    nested.add("n", 3)
    nested.append("k", "w")
    assert nested.get("k") == b"vw"  # a stock append has no answer: this says that it was done
    assert other.get("b/a/k") == b"vw"
    assert other.prefixed("b").prefixed("a").get("n") == b"3"

    other.prefixed("b/a").multi_set(["x", "y"], ["1", "2"])
    assert nested.multi_get(["y", "x"]) == [b"2", b"1"]
    assert sorted(nested.list_keys()) == ["k", "n", "x", "y"]
    assert nested.num_keys() == 4
    assert nested.delete_key("x")
    assert not other.check(["b/a/x"])


def test_a_prefixed_barrier_is_shared_by_both_libraries(server: Server, library: str) -> None:
    client, other = server.client(library), server.client(OTHER[library])

    first = later(client.prefixed("p").barrier, "b", 2)
    other.prefixed("p").barrier("b", 2, 10)

    first.result()


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_the_client_knows_whose_server_it_talks_to(server: Server) -> None:
    port, libuv, native, text = server.client("unisono").describe()

    assert port == server.port
    assert libuv
    assert native == (server.kind in OUR_SERVERS)
    assert re.fullmatch(
        r"TCPStore\(client=TCPClient\(SocketImpl\(fd=\d+, addr=\[?localhost\]?:\d+, "
        rf"remote=\[?localhost\]?:{port}\)\), server=<nullptr>\)",
        text,
    )


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_a_torch_client_beyond_a_limit_loses_only_its_own_connection(server: Server) -> None:
    client, other = server.client("torch"), server.client("torch")

    with pytest.raises(DistNetworkError):
        client.set("k" * (LONGEST_KEY + 1), "v")
        client.get("k")

    other.set("k", "v")
    assert server.owner.get("k") == b"v"


def test_our_client_refuses_before_a_limit_costs_the_connection(server: Server) -> None:
    client = server.client("unisono")

    with pytest.raises(DistStoreError, match="limit of 8192"):
        client.set("k" * (LONGEST_KEY + 1), "v")
    with pytest.raises(DistStoreError, match=f"limit of {LARGEST_VALUE}"):
        client.set("k", bytes(LARGEST_VALUE + 1))

    client.set("k", "v")
    assert client.get("k") == b"v"


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_long_keys_and_long_values_both_ways_at_once(server: Server, library: str) -> None:
    client = server.client(library)
    keys = [f"{i:06}" * 1000 for i in range(800)]
    values = [f"{i:05}".encode() * 2000 for i in range(800)]
    for at in range(0, 800, 200):
        client.multi_set(keys[at : at + 200], values[at : at + 200])

    begin = time.monotonic()
    assert client.multi_get(keys) == values
    print(f"800 keys of 6 kB, values of 10 kB: {time.monotonic() - begin:.2f} s")
