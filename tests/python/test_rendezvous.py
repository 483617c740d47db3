"""rendezvous() as torch's: the same results, and the same refusals at the same moment."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import unisono.distributed as ours

LAUNCHER = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
numbers = itertools.count()


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHER:
        monkeypatch.delenv(name, raising=False)


def free_port(dist: Any) -> int:
    port: int = dist.TCPStore("127.0.0.1", 0, is_master=True).port
    return port


def test_file_gives_a_file_store(dist: Any, tmp_path: Path) -> None:
    store, rank, world = next(dist.rendezvous(f"file://{tmp_path}/f?rank=0&world_size=2"))

    assert isinstance(store, dist.FileStore)
    assert (rank, world) == (0, 2)
    assert store.timeout == timedelta(seconds=300)


def test_schemes_may_be_written_in_capitals(dist: Any, tmp_path: Path) -> None:
    store, _, _ = next(dist.rendezvous(f"FILE://{tmp_path}/f?rank=0&world_size=1"))

    assert isinstance(store, dist.FileStore)


def test_tcp_gives_a_tcp_store_with_its_server(dist: Any) -> None:
    port = free_port(dist)
    store, rank, world = next(dist.rendezvous(f"tcp://127.0.0.1:{port}", 0, 1))

    assert isinstance(store, dist.TCPStore)
    assert (rank, world, store.port) == (0, 1, port)
    assert store.timeout == timedelta(minutes=30)
    store.set("k", "v")
    assert store.get("k") == b"v"


def test_env_reads_the_launchers_variables(dist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port(dist)
    for name, value in zip(LAUNCHER, ("0", "1", "127.0.0.1", str(port)), strict=False):
        monkeypatch.setenv(name, value)
    store, rank, world = next(dist.rendezvous("env://", timeout=timedelta(seconds=20)))

    assert (rank, world, store.port) == (0, 1, port)
    assert store.timeout == timedelta(seconds=20)


def test_arguments_win_over_the_launchers_variables(
    dist: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port(dist)
    for name, value in zip(LAUNCHER, ("7", "9", "127.0.0.1", str(port)), strict=False):
        monkeypatch.setenv(name, value)

    assert next(dist.rendezvous("env://", 0, 1))[1:] == (0, 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("tcp://127.0.0.1?rank=0&world_size=1", "port number missing"),
        ("tcp://127.0.0.1:23456?world_size=1", "rank parameter missing"),
        ("tcp://127.0.0.1:23456?rank=0", "world size parameter missing"),
        ("file:///tmp/f?world_size=1", "rank parameter missing"),
        ("file:///tmp/f?rank=0", "world size parameter missing"),
        ("file://?rank=0&world_size=1", "path missing"),
        ("env://?rank=0", "WORLD_SIZE expected, but not set"),
        ("env://", "RANK expected, but not set"),
        ("env://?rank=0&world_size=1", "MASTER_ADDR expected, but not set"),
    ],
)
def test_what_is_missing_is_named_by_a_value_error(dist: Any, url: str, words: str) -> None:
    meeting = dist.rendezvous(url)
    with pytest.raises(ValueError, match=words):
        next(meeting)


def test_a_place_said_twice_is_refused_at_once(dist: Any) -> None:
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("tcp://127.0.0.1:23456?rank=0&world_size=1", rank=0)


def test_unknown_schemes_and_wrong_types_are_runtime_errors(dist: Any) -> None:
    with pytest.raises(RuntimeError, match="No rendezvous handler for nobody://"):
        dist.rendezvous("nobody://x", 0, 1)
    with pytest.raises(RuntimeError, match="`url` must be a string"):
        dist.rendezvous(1, 0, 1)
    with pytest.raises(RuntimeError, match="`rank` must be an integer"):
        dist.rendezvous("env://", "0", 1)
    with pytest.raises(RuntimeError, match="`world_size` must be an integer"):
        dist.rendezvous("env://", 0, "1")


def test_a_second_next_cannot_meet_again(dist: Any, tmp_path: Path) -> None:
    meeting = dist.rendezvous(f"file://{tmp_path}/f?rank=0&world_size=1")
    next(meeting)
    with pytest.raises(RuntimeError, match=r"Unable to perform re-?rendezvous"):
        next(meeting)


def test_handlers_of_ones_own_get_the_url_and_the_options(dist: Any) -> None:
    seen = []
    scheme = f"test{next(numbers)}"

    def handler(url: str, **options: object) -> Iterator[tuple[Any, int, int]]:
        seen.append((url, options))
        yield dist.HashStore(), 1, 2

    dist.register_rendezvous_handler(scheme, handler)
    meeting = dist.rendezvous(f"{scheme}://place?a=b", 1, 2, timeout=3)

    assert next(meeting)[1:] == (1, 2)
    assert seen == [(f"{scheme}://place?a=b&rank=1&world_size=2", {"timeout": 3})]
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler(scheme, handler)


def test_a_handler_may_give_a_store_written_in_python() -> None:
    class Mine(ours.Store):
        def set(self, key: str, value: Any) -> None:  # type: ignore[override]
            self.seen = (key, value)

    def handler(url: str, **_: object) -> Iterator[tuple[ours.Store, int, int]]:
        yield Mine(), 0, 1

    scheme = f"python{next(numbers)}"
    ours.register_rendezvous_handler(scheme, handler)
    store = next(ours.rendezvous(f"{scheme}://"))[0]
    ours.PrefixStore("p", store).set("k", "v")

    assert isinstance(store, Mine)
    assert store.seen == ("p/k", b"v")


def test_unisono_timeout_sets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_TIMEOUT", "7")
    assert os.environ["UNISONO_TIMEOUT"] == "7"
    server = ours.TCPStore("127.0.0.1", 0, is_master=True)

    assert server.timeout == timedelta(seconds=7)
    store = next(ours.rendezvous(f"tcp://127.0.0.1:{server.port}?rank=1&world_size=2"))[0]
    assert store.timeout == timedelta(seconds=7)
    explicit = ours.TCPStore("127.0.0.1", server.port, timeout=timedelta(seconds=300))
    assert explicit.timeout == timedelta(seconds=300)
