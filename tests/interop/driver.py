"""Stores in other processes, ours and PyTorch's, driven alike.

A Peer is a process that holds stores: store_driver (ours) or torch_driver.py (PyTorch's). Both
speak the lines described at the head of store_driver.cpp. A Store here is a handle on a store in a
peer, with the methods of torch.distributed.Store, whichever library the peer runs.

The process that runs pytest never calls into a store itself: a call that hangs hangs in a peer, and
fails here with the stacks of that peer.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Protocol, TypeVar

from tests.interop import torch_driver

ROOT = Path(__file__).resolve().parents[2]
STORE_DRIVER = ROOT / "build" / "release" / "bin" / "store_driver"

# No call of a test takes longer, unless something hangs.
PATIENCE = 20.0

Text = str | bytes
T = TypeVar("T")


class DistError(RuntimeError):
    """What a store raised; named and derived as in torch.distributed."""

    reason = ""


class DistStoreError(DistError):
    pass


class QueueEmptyError(DistStoreError):
    pass


class DistNetworkError(DistError):
    pass


class DistAuthError(DistError):
    pass


class HungError(AssertionError):
    """A call did not return; the text has the stacks of the process."""


class PeerDiedError(AssertionError):
    """The peer's process ended while a call was under way."""


# The class a name in an answer stands for: first ours, then what PyTorch raises.
ERRORS: dict[str, type[Exception]] = {
    "UsageError": ValueError,
    "NotSupportedError": NotImplementedError,
    "DistQueueEmptyError": QueueEmptyError,
    "DistStoreError": DistStoreError,
    "DistNetworkError": DistNetworkError,
    "DistAuthError": DistAuthError,
    "QueueEmptyError": QueueEmptyError,
    "NotImplementedError": NotImplementedError,
    "ValueError": ValueError,
    "IndexError": IndexError,
    "UnicodeDecodeError": UnicodeError,
    "RuntimeError": RuntimeError,
}


def later(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Starts a call on a thread of its own; result() ends after PATIENCE, like any call."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def eventually(condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
    """Returns as soon as the condition holds; fails when it never does."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"after {within} s still not: {what}"
        time.sleep(0.002)  # between two looks, not a guess at how long something takes


def free_port() -> int:
    """A port on which nobody listens now, for those who must know it before they can listen."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class _Process(Protocol):
    """What a peer needs of its process."""

    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...

    def ended(self, within: float) -> bool: ...

    def stacks(self) -> str: ...


class _UnisonoProcess:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def ended(self, within: float) -> bool:
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stacks(self) -> str:
        if shutil.which("gdb") is None:
            return "(install gdb to see its stacks)"
        command = ["gdb", "-p", str(self.pid), "-batch", "-ex", "thread apply all bt"]
        try:
            shown = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            return "(gdb did not answer)"
        return shown.stdout[-20_000:]


class _TorchProcess:
    def __init__(
        self, process: multiprocessing.context.ForkServerProcess, stacks: IO[bytes]
    ) -> None:
        self._process = process
        self._stacks = stacks

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def ended(self, within: float) -> bool:
        self._process.join(within)
        return self._process.exitcode is not None

    def stacks(self) -> str:
        assert self.pid is not None
        os.kill(self.pid, signal.SIGUSR1)  # torch_driver has asked faulthandler to listen
        path = Path(self._stacks.name)
        try:
            eventually(lambda: path.stat().st_size > 0, "stacks", 5)
        except AssertionError:
            return "(it does not even tell its stacks)"
        return path.read_text()


class Peer:
    """A process that holds stores."""

    def __init__(
        self, library: str, process: _Process, requests: IO[bytes], answers: IO[bytes]
    ) -> None:
        self.library = library
        self._process = process
        self._requests = requests
        self._answers = answers
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[list[str]]] = {}
        self._dead = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def call(self, verb: str, *words: str, within: float = PATIENCE) -> list[str]:
        """Sends a request and returns the fields of its answer, or raises its error."""
        future: Future[list[str]] = Future()
        with self._lock:
            number = next(self._numbers)
            self._pending[number] = future
            if self._dead:
                raise PeerDiedError(f"the {self.library} process {self.pid} is gone")
            try:
                self._requests.write((" ".join([str(number), verb, *words]) + "\n").encode())
                self._requests.flush()
            except OSError as error:
                raise PeerDiedError(f"the {self.library} process {self.pid}: {error}") from error
        try:
            return future.result(within)
        except TimeoutError:
            stacks = self._process.stacks()
            self.kill()
            call = f"{verb} {' '.join(words)[:200]}"
            text = f"after {within} s a {self.library} process is still in: {call}\n{stacks}"
            raise HungError(text) from None

    def _listen(self) -> None:
        for line in self._answers:
            number, verdict, *fields = line.decode().split()
            with self._lock:
                future = self._pending.pop(int(number))
            if verdict == "ok":
                future.set_result(fields)
            else:
                name, reason, text = fields
                error = ERRORS.get(name, AssertionError)(f"{decode(text).decode()} ({name})")
                error.reason = reason  # type: ignore[attr-defined]
                future.set_exception(error)
        with self._lock:
            self._dead = True
            for future in self._pending.values():
                future.set_exception(PeerDiedError(f"the {self.library} process ended"))

    def open(self, kind: str, *words: str) -> Store:
        """Makes a store of that kind; see openStore in store_driver.cpp for the words."""
        with self._lock:
            name = f"s{next(self._numbers)}"
        fields = self.call("open", name, kind, *words)
        return Store(self, name, int(fields[0]) if fields else None)

    def tcp(self, port: int, **options: int | str) -> Store:
        """A TCPStore on loopback: a client of that port, or with server="libuv" or "poll" one."""
        return self.open("tcp", f"port={port}", *(f"{k}={v}" for k, v in options.items()))

    def file(self, path: Path, world_size: int = -1) -> Store:
        return self.open("file", encode(os.fspath(path)), str(world_size))

    def hash(self) -> Store:
        return self.open("hash")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stops the process, until it is sent SIGCONT."""
        self.signal(signal.SIGSTOP)
        stats = [task / "stat" for task in Path(f"/proc/{self.pid}/task").iterdir()]
        eventually(
            lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats),
            "all threads are stopped",
        )

    def kill(self) -> None:
        """Ends the process without giving it a chance to clean up."""
        self._process.kill()
        self._process.ended(PATIENCE)

    def close(self) -> None:
        """Lets the process destroy its stores and end; a process that does not is killed."""
        with contextlib.suppress(OSError):  # it died before it read everything
            self._requests.close()
        if not self._process.ended(10):
            stacks = self._process.stacks()
            self.kill()
            raise HungError(f"a {self.library} process did not end\n{stacks}")


class Store:
    """A store in a peer, with the methods of torch.distributed.Store. Timeouts are in seconds."""

    def __init__(self, peer: Peer, name: str, port: int | None = None) -> None:
        self.peer = peer
        self.name = name
        self._port = port

    @property
    def library(self) -> str:
        return self.peer.library

    @property
    def port(self) -> int:
        assert self._port is not None, "only a TCPStore has a port"
        return self._port

    def _call(self, verb: str, *words: str, within: float = PATIENCE) -> list[str]:
        return self.peer.call(verb, self.name, *words, within=within)

    def set(self, key: Text, value: Text) -> None:
        self._call("set", encode(key), encode(value))

    def get(self, key: Text) -> bytes:
        return decode(self._call("get", encode(key))[0])

    def compare_set(self, key: Text, expected: Text, desired: Text) -> bytes:
        return decode(self._call("compare_set", encode(key), encode(expected), encode(desired))[0])

    def add(self, key: Text, amount: int) -> int:
        return int(self._call("add", encode(key), str(amount))[0])

    def check(self, keys: Iterable[Text]) -> bool:
        return self._call("check", *map(encode, keys)) == ["1"]

    def wait(self, keys: Iterable[Text], timeout: float | None = None) -> None:
        self._call("wait", _milliseconds(timeout), *map(encode, keys))

    def delete_key(self, key: Text) -> bool:
        return self._call("delete_key", encode(key)) == ["1"]

    def delete_prefix(self, prefix: Text) -> int:
        return int(self._call("delete_prefix", encode(prefix))[0])

    def num_keys(self) -> int:
        return int(self._call("num_keys")[0])

    def list_keys(self) -> list[str]:
        return [decode(word).decode(errors="surrogateescape") for word in self._call("list_keys")]

    def append(self, key: Text, value: Text) -> None:
        self._call("append", encode(key), encode(value))

    def multi_get(self, keys: Iterable[Text]) -> list[bytes]:
        return [decode(word) for word in self._call("multi_get", *map(encode, keys))]

    def multi_set(self, keys: Sequence[Text], values: Iterable[Text]) -> None:
        self._call("multi_set", str(len(keys)), *map(encode, keys), *map(encode, values))

    def queue_push(self, key: Text, value: Text) -> None:
        self._call("queue_push", encode(key), encode(value))

    def queue_pop(self, key: Text, block: bool = True) -> bytes:
        return decode(self._call("queue_pop", encode(key), str(int(block)))[0])

    def queue_len(self, key: Text) -> int:
        return int(self._call("queue_len", encode(key))[0])

    def barrier(self, key: Text, world_size: int, timeout: float | None = None) -> None:
        self._call("barrier", encode(key), str(world_size), _milliseconds(timeout))

    def has_extended_api(self) -> bool:
        return self._call("has_extended_api") == ["1"]

    @property
    def timeout(self) -> float:
        return int(self._call("timeout")[0]) / 1000

    def set_timeout(self, timeout: float) -> None:
        self._call("set_timeout", _milliseconds(timeout))

    def prefixed(self, prefix: Text) -> Store:
        """A PrefixStore over this store, in the same process."""
        return self.peer.open("prefix", encode(prefix), self.name)

    def clone(self) -> Store:
        return self.peer.open("clone", self.name)

    def describe(self) -> tuple[int, bool, bool, str]:
        """Of a TCPStore: port, libuvBackend, whether the server is known to be ours, repr."""
        port, libuv, native, text = self._call("describe")
        return int(port), libuv == "1", native == "1", decode(text).decode()

    def destroy(self) -> None:
        self._call("destroy")


def encode(value: Text) -> str:
    return "x" + (value.encode() if isinstance(value, str) else value).hex()


def decode(word: str) -> bytes:
    assert word.startswith("x"), word
    return bytes.fromhex(word[1:])


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else str(round(seconds * 1000))


def start_unisono(environment: dict[str, str] | None = None, fds: Sequence[int] = ()) -> Peer:
    """A process with our stores; it inherits the descriptors."""
    assert STORE_DRIVER.exists(), f"{STORE_DRIVER} is missing: build the preset release"
    process = subprocess.Popen(
        [STORE_DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | (environment or {}),
        pass_fds=fds,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return Peer("unisono", _UnisonoProcess(process), process.stdin, process.stdout)


def torch_processes() -> multiprocessing.context.ForkServerContext:
    """Makes processes that have PyTorch loaded already: importing it anew takes seconds."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # lost connections are what is tested
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed"])
    return context


def start_torch(environment: dict[str, str] | None = None) -> Peer:
    """A process with PyTorch's stores."""
    context = torch_processes()
    there_in, here_out = context.Pipe(duplex=False)
    here_in, there_out = context.Pipe(duplex=False)
    stacks = tempfile.NamedTemporaryFile()  # noqa: SIM115 - lives as long as the peer
    process = context.Process(
        target=torch_driver.serve,
        args=(there_in, there_out, stacks.name, environment or {}),
        daemon=True,
    )
    process.start()
    requests = os.fdopen(os.dup(here_out.fileno()), "wb")
    answers = os.fdopen(os.dup(here_in.fileno()), "rb")
    for connection in (there_in, there_out, here_in, here_out):
        connection.close()
    return Peer("torch", _TorchProcess(process, stacks), requests, answers)
