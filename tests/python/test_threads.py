"""Waiting without holding up others: the interpreter's lock, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import unisono.distributed as dist
from tests.python.conftest import PATIENCE, run_python
from tests.signals import CTRL_C_BOUND, signal_inside

Waiter = Callable[[], object]


def tcp() -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, is_master=True)


def waits(tmp_path: Path) -> dict[str, Waiter]:
    """Every call that can wait, on every kind of store."""
    stores = {
        "tcp": tcp(),
        "hash": dist.HashStore(),
        "file": dist.FileStore(str(tmp_path / "f")),
        "prefix": dist.PrefixStore("p", tcp()),
    }
    calls: dict[str, Waiter] = {}
    for name, store in stores.items():
        calls[f"{name} get"] = partial(store.get, "missing")
        calls[f"{name} wait"] = partial(store.wait, ["missing"], timedelta(minutes=5))
        calls[f"{name} multi_get"] = partial(store.multi_get, ["a", "b"])
        calls[f"{name} barrier"] = partial(store.barrier, "b", 2)
        if name != "file":
            calls[f"{name} queue_pop"] = partial(store.queue_pop, "q")
    calls["tcp workers"] = lambda: dist.TCPStore("127.0.0.1", 0, 2, True)
    calls["rendezvous"] = lambda: next(dist.rendezvous("tcp://127.0.0.1:1", 1, 2))
    return calls


def test_ctrl_c_ends_every_wait(tmp_path: Path) -> None:
    slowest = 0.0
    for name, call in waits(tmp_path).items():
        with signal_inside() as sent, pytest.raises(KeyboardInterrupt):
            call()
        took = time.monotonic() - sent[0]
        slowest = max(slowest, took)
        assert took < CTRL_C_BOUND, name
    print(f"the slowest wait ended {slowest * 1000:.0f} ms after Ctrl-C")


@contextmanager
def stopped_server() -> Iterator[tuple[dist.TCPStore, subprocess.Popen[str]]]:
    """A client of a server that has been stopped, and does not answer; and that server."""
    program = Path(sys.prefix) / "bin" / "unisono"
    command = [str(program), "store", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            endpoint = json.loads(server.stdout.readline())["endpoint"]
            store = dist.TCPStore("127.0.0.1", int(endpoint.rpartition(":")[2]))
            server.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED)  # all of its threads have stopped
            yield store, server
        finally:
            server.kill()


def test_ctrl_c_ends_calls_that_the_server_does_not_answer() -> None:
    with stopped_server() as (store, _):
        calls: dict[str, Waiter] = {
            "get": partial(store.get, "k"),
            "add": partial(store.add, "n", 1),
            "check": partial(store.check, ["k"]),
            "compare_set": partial(store.compare_set, "k", "a", "b"),
            "num_keys": store.num_keys,
            "list_keys": store.list_keys,
            "queue_len": partial(store.queue_len, "q"),
            "clone": store.clone,
            "TCPStore": partial(dist.TCPStore, "127.0.0.1", store.port),
        }
        for name, call in calls.items():
            with signal_inside() as sent, pytest.raises(KeyboardInterrupt):
                call()
            assert time.monotonic() - sent[0] < CTRL_C_BOUND, name


def test_calls_to_a_silent_server_hold_nobody_up() -> None:
    with stopped_server() as (store, server):
        threads = [
            threading.Thread(target=pytest.raises, args=(dist.DistError, call))
            for call in (store.num_keys, store.list_keys, partial(store.queue_len, "q"))
        ]
        store.set_timeout(PATIENCE)
        for thread in threads:
            thread.start()
        # Were the lock held, this thread would go on only when the calls have given up.
        for _ in range(10):
            time.sleep(0.01)
        assert all(thread.is_alive() for thread in threads)
        server.kill()
        for thread in threads:
            thread.join()


def test_a_store_works_on_after_ctrl_c(tmp_path: Path) -> None:
    for store in (tcp(), dist.HashStore(), dist.FileStore(str(tmp_path / "f"))):
        with signal_inside(), pytest.raises(KeyboardInterrupt):
            store.get("k")
        store.set("k", "v")
        assert store.get("k") == b"v"
        assert store.add("n", 1) == 1


def test_a_signal_handler_runs_during_a_wait_and_may_use_the_store() -> None:
    store = tcp()

    def handler(number: int, frame: FrameType | None) -> None:
        store.set("k", "from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with signal_inside(signal.SIGUSR1):
            assert store.get("k") == b"from the handler"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handlers_exception_ends_the_wait() -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise LookupError("enough")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with signal_inside(signal.SIGUSR1), pytest.raises(LookupError, match="enough"):
            dist.HashStore().get("k")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_waiting_threads_hold_nobody_up(tmp_path: Path) -> None:
    for store in (tcp(), dist.HashStore(), dist.FileStore(str(tmp_path / "f"))):
        got: list[Any] = []
        threads = [
            threading.Thread(target=lambda store=store, got=got: got.append(store.get("go")))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        # Were the lock held, this thread would not get here before the timeout of 300 s.
        assert store.add("n", 1) == 1
        store.set("go", "now")
        for thread in threads:
            thread.join()
        assert got == [b"now"] * 4


def test_threads_go_on_when_the_modules_are_forgotten() -> None:
    ended = run_python(
        """
        import gc, sys, threading
        import unisono.distributed as dist
        store = dist.HashStore()
        thread = threading.Thread(target=lambda: print(store.get("k")))
        thread.start()
        for name in [name for name in sys.modules if name.startswith("unisono")]:
            del sys.modules[name]
        del dist
        gc.collect()
        store.set("k", "v")
        thread.join()
        """
    )

    assert (ended.returncode, ended.stdout) == (0, "b'v'\n"), ended


def test_one_object_may_be_waited_on_and_used_at_once() -> None:
    store = tcp()
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(store.get("k")))
    thread.start()
    store.set("k", "v")
    thread.join()

    assert answers == [b"v"]
