"""Leaving the interpreter never hangs and never crashes, whatever still runs."""

from __future__ import annotations

import signal
from textwrap import dedent

import pytest

from tests.python.conftest import run_python

HEAD = """
import atexit, os, sys, threading, time
import unisono.distributed as dist

def tcp():
    return dist.TCPStore("127.0.0.1", 0, is_master=True)

class Slow(dist.Store):
    def get(self, key):
        while True:
            time.sleep(0.001)

def started(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    time.sleep(0.05)
    return thread
"""

# Each program ends with this exit code, and says nothing on stderr but what is named.
PROGRAMS: dict[str, tuple[str, int, str]] = {
    "with live stores as globals": (
        "store = tcp(); client = dist.TCPStore('127.0.0.1', store.port); client.set('k', 'v')",
        0,
        "",
    ),
    "with a client that outlives its server": (
        "client = dist.TCPStore('127.0.0.1', (server := tcp()).port); keep = [client, server]",
        0,
        "",
    ),
    "with prefixes in a circle": (
        "store = Slow(); store.view = dist.PrefixStore('p', store)",
        0,
        "",
    ),
    "while a daemon thread waits in get": ("store = tcp(); started(lambda: store.get('k'))", 0, ""),
    "while daemon threads wait on every kind of store": (
        """
        import tempfile
        folder = tempfile.mkdtemp()
        stores = [tcp(), dist.HashStore(), dist.FileStore(folder + '/f')]
        stores += [dist.PrefixStore('p', store) for store in stores]
        for store in stores:
            started(lambda store=store: store.get('k'))
            started(lambda store=store: store.barrier('b', 2))
        """,
        0,
        "",
    ),
    "while a daemon thread's wait ends at that moment": (
        """
        store = tcp()
        def waiting():
            while True:
                try:
                    store.wait(['k'], 0.001)
                except dist.DistError:
                    pass
        for _ in range(4):
            started(waiting)
        """,
        0,
        "",
    ),
    "while daemon threads call without end": (
        """
        store = tcp()
        def calling():
            own = store.clone()
            while True:
                own.add('n', 1)
        for _ in range(4):
            started(calling)
        """,
        0,
        "",
    ),
    "while a daemon thread is in a store of Python": (
        """
        store = dist.PrefixStore('p', Slow())
        for _ in range(4):
            started(lambda: store.get('k'))
        """,
        0,
        "",
    ),
    "while a daemon thread connects": (
        """
        started(lambda: dist.TCPStore('127.0.0.1', 1))
        started(lambda: dist.TCPStore('192.0.2.1', 1))
        """,
        0,
        "",
    ),
    "while a server waits for workers": (
        "started(lambda: dist.TCPStore('127.0.0.1', 0, 2, True))",
        0,
        "",
    ),
    "by sys.exit in a thread": (
        "store = tcp(); thread = started(lambda: sys.exit(3)); thread.join()",
        0,
        "",
    ),
    "by sys.exit with a thread waiting": (
        "store = tcp(); started(lambda: store.get('k')); sys.exit(3)",
        3,
        "",
    ),
    "by os._exit": ("store = tcp(); started(lambda: store.get('k')); os._exit(4)", 4, ""),
    "by an exception": (
        "store = tcp(); started(lambda: store.get('k')); raise LookupError('enough')",
        1,
        "LookupError: enough",
    ),
    "by an exception in a get": (
        "dist.HashStore().wait(['k'], 0.0)",
        1,
        "unisono.distributed.DistStoreError",
    ),
    "with stores used at exit": (
        "store = tcp(); atexit.register(lambda: print(store.add('n', 1)))",
        0,
        "",
    ),
    "with a thread waited for at exit": (
        """
        store = tcp()
        thread = threading.Thread(target=lambda: store.get('k'), daemon=True)
        def end():
            store.set('k', 'v')
            thread.join()
        atexit.register(end)
        thread.start()
        """,
        0,
        "",
    ),
    "when a thread that is no daemon gets its key": (
        """
        store = tcp()
        threading.Thread(target=lambda: store.get('k')).start()
        threading.Thread(target=lambda: (time.sleep(0.1), store.set('k', 'v'))).start()
        """,
        0,
        "",
    ),
    "in a forked child too": (
        """
        store = tcp(); started(lambda: store.get('k'))
        child = os.fork()
        if child == 0:
            own = tcp()
            own.set('k', 'v')
            sys.exit(5 if own.get('k') == b'v' else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        5,
        "",
    ),
    "from a store's finalizer": (
        """
        class Last:
            def __init__(self): self.store = tcp()
            def __del__(self): self.store.set('k', 'v')
        last = Last()
        """,
        0,
        "",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_interpreter_is_left(name: str) -> None:
    body, code, words = PROGRAMS[name]
    ended = run_python(HEAD + dedent(body))

    assert ended.returncode == code, ended
    assert words in ended.stderr, ended
    if not words:
        assert ended.stderr == "", ended


def test_ctrl_c_ends_a_program_that_waits() -> None:
    ended = run_python(
        HEAD
        + """
store = tcp()
threading.Timer(0.2, lambda: os.kill(os.getpid(), 2)).start()
store.get("k")
"""
    )

    assert ended.returncode in (1, -signal.SIGINT, 128 + signal.SIGINT), ended
    assert "KeyboardInterrupt" in ended.stderr, ended
