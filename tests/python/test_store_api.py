"""unisono.distributed behaves as torch.distributed: every test here runs on both."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

Make = Callable[[str], Any]

QUEUES = ("tcp", "hash", "prefix-tcp", "prefix-hash")


@pytest.fixture(params=QUEUES)
def queue_store(request: pytest.FixtureRequest, make: Make) -> Any:
    return make(request.param)


def is_torchs_file(dist: Any, store: Any) -> bool:
    """Whether it is torch's FileStore, which can do less than ours."""
    below = getattr(store, "underlying_store", store)
    return dist.__name__ == "torch.distributed" and isinstance(below, dist.FileStore)


def test_what_was_set_comes_back_as_bytes(store: Any) -> None:
    store.set("text", "grüße")
    store.set("bytes", b"\x00\xff\x00")
    store.set("array", bytearray(b"\x01\x02"))
    store.set("empty", "")

    assert store.get("text") == "grüße".encode()
    assert store.get("bytes") == b"\x00\xff\x00"
    assert store.get("array") == b"\x01\x02"
    assert store.get("empty") == b""
    assert type(store.get("array")) is bytes


def test_keys_may_be_bytes(store: Any) -> None:
    store.set(b"key", "1")
    store.set(bytearray(b"other"), "2")

    assert store.get("key") == b"1"
    assert store.get("other") == b"2"
    assert store.check([b"key", "other"])


def test_add_counts_and_keeps_decimal_text(store: Any) -> None:
    assert store.add("n", 5) == 5
    assert store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    assert store.add("n", True) == -1


def test_compare_set_says_what_is_there(store: Any) -> None:
    assert store.compare_set("k", "expected", "new") == b"expected"
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "wrong", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.get("k") == b"second"


def test_delete_key_says_whether_it_was_there(dist: Any, store: Any) -> None:
    store.set("k", "v")

    assert store.delete_key("k") is True
    assert store.check(["k"]) is False
    if not is_torchs_file(dist, store):  # whose answer is always True
        assert store.delete_key("k") is False


def test_check_and_wait_take_any_iterable_of_keys(store: Any) -> None:
    store.multi_set(["a", "b"], ["1", "2"])

    for keys in (["a", "b"], ("a", "b"), {"a", "b"}, {"a": 0, "b": 0}.keys(), []):
        assert store.check(keys) is True
        store.wait(keys)
        store.wait(keys, timedelta(seconds=5))
        store.wait(keys, 5.0)
    assert store.check(key for key in ("a", "b"))


def test_many_at_once_keep_their_order(store: Any) -> None:
    store.multi_set(["a", "b", "c"], ["1", b"2", bytearray(b"3")])

    assert store.multi_get(["c", "a", "b"]) == [b"3", b"1", b"2"]
    assert type(store.multi_get(["a"])) is list


def test_append_extends_a_value(store: Any) -> None:
    store.append("k", "ab")
    store.append("k", b"cd")

    assert store.get("k") == b"abcd"


def test_num_keys_grows_by_one_with_a_key(store: Any) -> None:
    before = store.num_keys()
    store.set("k", "v")

    assert store.num_keys() == before + 1


def test_list_keys_gives_text(make: Make) -> None:
    for kind in ("tcp", "hash"):
        store = make(kind)
        store.set("grüße", "v")
        assert store.list_keys() == ["grüße"]
        store.set(b"\xff", "v")
        with pytest.raises(UnicodeDecodeError):
            store.list_keys()


def test_has_extended_api_is_the_same(dist: Any, store: Any) -> None:
    assert store.has_extended_api() is not is_torchs_file(dist, store)


def test_queues_are_first_in_first_out(queue_store: Any) -> None:
    assert queue_store.queue_len("q") == 0
    queue_store.queue_push("q", "1")
    queue_store.queue_push("q", b"2")

    assert queue_store.queue_len("q") == 2
    assert queue_store.queue_pop("q") == b"1"
    assert queue_store.queue_pop(key="q", block=False) == b"2"


def test_an_empty_queue_says_so(dist: Any, queue_store: Any) -> None:
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        queue_store.queue_pop("q", False)


def test_timeout_is_300_seconds_unless_set(store: Any) -> None:
    assert store.timeout == timedelta(seconds=300)
    store.set_timeout(timedelta(seconds=2, milliseconds=500))
    assert store.timeout == timedelta(seconds=2.5)
    store.set_timeout(1.5)
    assert store.timeout == timedelta(seconds=1.5)
    with pytest.raises(AttributeError):
        store.timeout = timedelta(seconds=1)


def test_a_wait_for_nothing_ends_with_its_timeout(dist: Any, make: Make) -> None:
    for kind in ("tcp", "hash", "prefix-tcp"):
        store = make(kind)
        with pytest.raises(dist.DistStoreError, match=r"[t -i]imeout"):
            store.wait(["missing"], timedelta(milliseconds=50))
        store.set_timeout(timedelta(milliseconds=50))
        with pytest.raises(dist.DistStoreError, match=r"[t -i]imeout"):
            store.get("missing")


def test_a_timeout_over_tcp_names_the_keys(dist: Any, make: Make) -> None:
    with pytest.raises(
        dist.DistStoreError, match=r"wait timeout after 100ms, keys: /nonexistent key"
    ):
        make("tcp").wait(["nonexistent key"], 0.1)


@pytest.mark.parametrize(
    ("kind", "call", "words"),
    [
        ("hash", lambda store: store.get("k"), "Wait timeout"),
        ("hash", lambda store: store.wait(["k"], 0.05), "Wait timeout"),
        ("hash", lambda store: store.queue_pop("k"), "Wait timeout"),
        ("hash", lambda store: store.queue_pop("k", block=False), "queue is empty"),
        ("file", lambda store: store.get("k"), "Timeout waiting for key: k after 50 ms"),
        ("file", lambda store: store.wait(["k"], 0.05), "Wait timeout"),
        ("file", lambda store: store.queue_push("k", "v"), "queue support is not implemented."),
        ("file", lambda store: store.queue_pop("k"), "queue support is not implemented."),
        ("file", lambda store: store.queue_len("k"), "queue support is not implemented."),
        ("tcp", lambda store: store.get("k"), "wait timeout after 50ms, keys: /k"),
        ("tcp", lambda store: store.multi_get(["k"]), "wait timeout after 50ms, keys: /k"),
        ("tcp", lambda store: store.queue_pop("k"), "wait timeout after 50ms, keys: /k"),
        ("tcp", lambda store: store.queue_pop("k", block=False), "queue is empty"),
        ("tcp", lambda store: store.barrier("k", 2, 0.05), "barrier timeout after 50ms, key: k"),
    ],
)
def test_errors_hold_the_words_that_programs_look_for(
    make: Make, kind: str, call: Callable[[Any], Any], words: str
) -> None:
    store = make(kind)
    store.set_timeout(timedelta(milliseconds=50))
    with pytest.raises(RuntimeError, match=re.escape(words)):
        call(store)


def test_barrier_lets_all_pass_together(store: Any) -> None:
    store.barrier("one", 1)
    store.barrier(key="two", world_size=1, timeout=timedelta(seconds=5))
    with pytest.raises(RuntimeError, match=r"[t -i]imeout"):
        store.barrier("three", 2, 0.05)


def test_clone_sees_the_same_data_and_has_the_same_type(make: Make) -> None:
    for kind in ("tcp", "hash", "prefix-hash", "prefix-tcp"):
        store = make(kind)
        twin = store.clone()
        twin.set("k", "v")
        assert store.get("k") == b"v"
        assert type(twin) is type(store)
        assert (twin is store) == (kind == "hash")


def test_classes_derive_as_in_torch(dist: Any) -> None:
    for kind in (dist.TCPStore, dist.FileStore, dist.HashStore, dist.PrefixStore):
        assert issubclass(kind, dist.Store)
    assert dist.DistError.__mro__[1] is RuntimeError
    for error in (dist.DistBackendError, dist.DistStoreError, dist.DistNetworkError):
        assert error.__mro__[1] is dist.DistError
    assert dist.QueueEmptyError.__mro__[1] is dist.DistStoreError


def test_tcp_store_shows_where_it_is(dist: Any) -> None:
    server = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=30))
    client = dist.TCPStore(host_name="127.0.0.1", port=server.port, use_libuv=False)

    assert server.host == client.host == "127.0.0.1"
    assert server.port == client.port > 0
    assert server.libuvBackend is True
    assert client.libuvBackend is False
    assert f"server=TCPServer(port={server.port})" in repr(server)
    assert "server=<nullptr>" in repr(client)
    assert server.timeout == timedelta(seconds=30)


def test_tcp_store_counts_its_workers(dist: Any) -> None:
    server = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    dist.TCPStore("127.0.0.1", server.port, 2, False)
    with pytest.raises(dist.DistStoreError, match=r"Timed out after .* clients joined"):
        dist.TCPStore("127.0.0.1", 0, world_size=2, is_master=True, timeout=0.2)


def test_tenants_share_a_server(dist: Any) -> None:
    first = dist.TCPStore("127.0.0.1", 0, is_master=True, multi_tenant=True)
    second = dist.TCPStore("127.0.0.1", first.port, is_master=True, multi_tenant=True)
    first.set("k", "v")

    assert second.get("k") == b"v"


def test_prefix_store_gives_back_the_very_store_it_wraps(dist: Any) -> None:
    below = dist.HashStore()
    inner = dist.PrefixStore("b", below)
    outer = dist.PrefixStore(prefix="a", store=inner)
    outer.set("k", "v")

    assert below.get("b/a/k") == b"v"
    assert outer.underlying_store is inner
    assert inner.underlying_store is below
    assert outer._underlying_non_prefix_store is below


def test_prefix_store_keeps_the_store_below(dist: Any) -> None:
    store = dist.PrefixStore("p", dist.HashStore())
    store.set("k", "v")

    assert store.get("k") == b"v"
    assert isinstance(store.underlying_store, dist.HashStore)


def test_file_store_knows_its_path(dist: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "file")

    assert dist.FileStore(path).path == path
    assert dist.FileStore(file_name=path, world_size=1).path == path


def test_stores_can_be_weakly_referenced_and_derived(dist: Any) -> None:
    class Mine(dist.HashStore):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.note = "kept"

        def get(self, key: str) -> bytes:
            value: bytes = super().get(key)
            return value + b"!"

    store = Mine()
    reference = weakref.ref(store)
    store.set("k", "v")

    assert store.get("k") == b"v!"
    assert store.note == "kept"
    del store
    assert reference() is None
