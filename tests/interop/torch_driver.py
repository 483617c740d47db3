"""PyTorch's stores, driven through pipes: the lines of store_driver.cpp, for the other library."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

# A torch.distributed.Store; not by name, so that checking types needs no PyTorch.
TorchStore: TypeAlias = Any


def serve(
    requests: Connection, answers: Connection, stacks: str, environment: dict[str, str]
) -> None:
    """Answers requests until there are no more; SIGUSR1 writes the stacks to that file."""
    os.environ.update(environment)
    with Path(stacks).open("w") as stacks_file:
        faulthandler.register(signal.SIGUSR1, stacks_file, all_threads=True)
        driver = _Driver(answers)
        with os.fdopen(requests.fileno(), "r", closefd=False) as lines:
            for line in lines:
                threading.Thread(target=driver.answer, args=(line.split(),), daemon=True).start()
        driver.stores.clear()
        os._exit(0)  # calls that still wait are not waited for


class _Driver:
    def __init__(self, answers: Connection) -> None:
        self.stores: dict[str, TorchStore] = {}
        self._answers = os.fdopen(answers.fileno(), "w", closefd=False)
        self._lock = threading.Lock()

    def answer(self, words: list[str]) -> None:
        number, verb, name, *arguments = words
        try:
            reply = ["ok", *self._execute(verb, name, arguments)]
        except Exception as error:
            reply = ["error", type(error).__name__, "-", _encode(str(error).encode())]
        with self._lock:
            print(number, *reply, file=self._answers, flush=True)

    def _execute(self, verb: str, name: str, words: list[str]) -> list[str]:
        if verb == "open":
            store = self.stores[name] = self._open(words[0], words[1:])
            return [str(store.port)] if hasattr(store, "port") else []
        if verb == "destroy":
            del self.stores[name]
            return []
        return _VERBS[verb](self.stores[name], words)

    def _open(self, kind: str, words: list[str]) -> TorchStore:
        import torch.distributed as dist

        if kind == "tcp":
            return _open_tcp(dict(word.split("=", 1) for word in words))
        if kind == "hash":
            return dist.HashStore()
        if kind == "file":
            return dist.FileStore(os.fsdecode(_decode(words[0])), int(words[1]))
        if kind == "prefix":
            return dist.PrefixStore(_decode(words[0]).decode(), self.stores[words[1]])
        if kind == "clone":
            return self.stores[words[0]].clone()
        raise LookupError(f"no such kind of store: {kind}")


def _open_tcp(options: dict[str, str]) -> TorchStore:
    import torch.distributed as dist

    loop = options.get("server")
    return dist.TCPStore(
        options.get("host", "127.0.0.1"),
        int(options["port"]),
        int(options["workers"]) if "workers" in options else None,
        loop is not None,
        timeout=timedelta(milliseconds=int(options.get("timeout", "300000"))),
        wait_for_workers=options.get("wait", "1") == "1",
        multi_tenant=options.get("tenant") == "1",
        use_libuv=loop == "libuv" if loop else options.get("libuv", "1") == "1",
    )


def _encode(value: bytes) -> str:
    return "x" + value.hex()


def _decode(word: str) -> bytes:
    return bytes.fromhex(word[1:])


def _timeout(store: TorchStore, word: str) -> timedelta:
    timeout: timedelta = store.timeout if word == "-" else timedelta(milliseconds=int(word))
    return timeout


def _done(_: None) -> list[str]:
    return []


def _number(value: int) -> list[str]:
    return [str(int(value))]


def _bytes(value: bytes) -> list[str]:
    return [_encode(value)]


def _texts(words: list[str]) -> list[bytes]:
    return [_decode(word) for word in words]


def _multi_set(store: TorchStore, words: list[str]) -> list[str]:
    count = int(words[0])
    items = _texts(words[1:])
    return _done(store.multi_set(items[:count], items[count:]))


def _barrier(store: TorchStore, words: list[str]) -> list[str]:
    # Without a timeout the call is left without one: what PyTorch makes of that is its own affair.
    timeout = () if words[2] == "-" else (_timeout(store, words[2]),)
    return _done(store.barrier(_decode(words[0]), int(words[1]), *timeout))


def _describe(store: TorchStore, _: list[str]) -> list[str]:
    return [str(store.port), str(int(store.libuvBackend)), "0", _encode(repr(store).encode())]


_VERBS: dict[str, Callable[[TorchStore, list[str]], list[str]]] = {
    "set": lambda store, words: _done(store.set(*_texts(words))),
    "get": lambda store, words: _bytes(store.get(*_texts(words))),
    "compare_set": lambda store, words: _bytes(store.compare_set(*_texts(words))),
    "add": lambda store, words: _number(store.add(_decode(words[0]), int(words[1]))),
    "delete_key": lambda store, words: _number(store.delete_key(*_texts(words))),
    "check": lambda store, words: _number(store.check(_texts(words))),
    "wait": lambda store, words: _done(store.wait(_texts(words[1:]), _timeout(store, words[0]))),
    "num_keys": lambda store, _: _number(store.num_keys()),
    "list_keys": lambda store, _: [_encode(key.encode()) for key in store.list_keys()],
    "append": lambda store, words: _done(store.append(*_texts(words))),
    "multi_get": lambda store, words: [_encode(v) for v in store.multi_get(_texts(words))],
    "multi_set": _multi_set,
    "queue_push": lambda store, words: _done(store.queue_push(*_texts(words))),
    "queue_pop": lambda store, words: _bytes(store.queue_pop(_decode(words[0]), words[1] == "1")),
    "queue_len": lambda store, words: _number(store.queue_len(*_texts(words))),
    "barrier": _barrier,
    "timeout": lambda store, _: _number(store.timeout / timedelta(milliseconds=1)),
    "set_timeout": lambda store, words: _done(store.set_timeout(_timeout(store, words[0]))),
    "has_extended_api": lambda store, _: _number(store.has_extended_api()),
    "describe": _describe,
}
