"""What the exceptions of unisono.distributed carry."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import unisono.distributed as dist


def test_an_error_carries_its_fields() -> None:
    with pytest.raises(dist.DistStoreError) as caught:
        dist.HashStore().wait(["missing"], 0.05)
    error = caught.value

    assert error.reason == "TIMEOUT"
    assert error.op == "wait"
    assert error.elapsed_ms == 50
    assert "is the rank that sets it running" in error.hint
    assert str(error).startswith("unisono: ")
    assert "[TIMEOUT]" in str(error)
    assert "\n" not in str(error)
    assert (error.culprits, error.rank, error.world, error.seq, error.group) == (
        *((), None, None, None),
        "",
    )


def test_an_error_names_the_server() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistStoreError) as caught:
        store.wait(["missing"], 0.05)

    assert caught.value.reason == "TIMEOUT"
    assert caught.value.host == f"127.0.0.1:{store.port}"


def test_a_lost_server_is_a_network_error() -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    client = dist.TCPStore("127.0.0.1", server.port)
    del server
    with pytest.raises(dist.DistNetworkError) as caught:
        client.get("k")

    assert caught.value.reason == "STORE_LOST"


def test_nobody_at_an_address_is_a_network_error() -> None:
    port = dist.TCPStore("127.0.0.1", 0, is_master=True).port
    with pytest.raises(dist.DistNetworkError) as caught:
        dist.TCPStore("127.0.0.1", port, timeout=0.2)

    assert caught.value.reason == "PEER_UNREACHABLE"


def test_a_server_for_others_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNISONO_ALLOW_UNAUTHENTICATED", raising=False)
    with pytest.raises(dist.DistError, match="UNISONO_ALLOW_UNAUTHENTICATED=1") as caught:
        dist.TCPStore("0.0.0.0", 0, is_master=True)
    assert caught.value.reason == "CONFIG"

    monkeypatch.setenv("UNISONO_ALLOW_UNAUTHENTICATED", "1")
    assert dist.TCPStore("0.0.0.0", 0, is_master=True).port > 0


def test_too_large_a_value_names_the_limit() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistError) as caught:
        store.set("k", bytes(9 << 20))
    assert caught.value.reason == "LIMIT"
    store.set("k", "still works")


def test_what_a_store_lacks_is_a_not_implemented_error(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match="queue support is not implemented") as caught:
        dist.FileStore(str(tmp_path / "f")).queue_push("q", "v")

    assert isinstance(caught.value, dist.NotSupportedError)
    assert isinstance(caught.value, dist.DistError)


def test_errors_can_be_sent_to_other_processes() -> None:
    with pytest.raises(dist.DistStoreError) as caught:
        dist.HashStore().wait(["k"], 0.0)
    copy = pickle.loads(pickle.dumps(caught.value))

    assert type(copy) is dist.DistStoreError
    assert str(copy) == str(caught.value)
    assert copy.reason == "TIMEOUT"


def test_users_may_raise_them_too() -> None:
    error = dist.DistStoreError("mine")

    assert str(error) == "mine"
    assert error.reason == ""
    assert isinstance(dist.DistTimeoutError("late"), TimeoutError)
    assert isinstance(dist.DistTimeoutError("late"), RuntimeError)


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("kind", ["tcp", "hash", "file", "prefix"])
def test_a_forked_child_is_told_to_make_its_own(kind: str, tmp_path: Any) -> None:
    makers: dict[str, Callable[[], dist.Store]] = {
        "tcp": lambda: dist.TCPStore("127.0.0.1", 0, is_master=True),
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "f")),
        "prefix": lambda: dist.PrefixStore("p", dist.HashStore()),
    }
    store = makers[kind]()
    store.set("k", "v")
    child = os.fork()
    if child == 0:
        verdict = 1
        try:
            store.get("k")
        except dist.DistError as error:
            verdict = 0 if error.reason == "FORKED" else 2
        finally:
            os._exit(verdict)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get("k") == b"v"
