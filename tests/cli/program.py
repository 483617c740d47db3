"""The unisono program for tests: runs it, serves with it, and ends what is left of it."""

from __future__ import annotations

import json
import os
import select
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "unisono"
PATIENCE = 30.0

NEEDS_PROGRAM = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} has not been built")

# What a launcher around the tests, or somebody who runs them, might have set.
FOREIGN = (
    *("UNISONO_STORE", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"),
    *("UNISONO_AUTH_SECRET", "UNISONO_AUTH_SECRET_FILE", "OMP_NUM_THREADS", "TMPDIR"),
)


def environment(**more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in FOREIGN and not name.startswith(("PET_", "TORCH"))
    }
    return {**kept, **more}


def wait_until(what: str, there: Callable[[], bool]) -> None:
    """Looks again and again; what never comes fails the test."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has asked for its exit code."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_for(PATIENCE, *arguments, **env)


def run_for(patience: float, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The same, for something that may take longer."""
    return _run((), patience, *arguments, **env)


def run_in(
    place: tuple[str, ...], /, *arguments: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """The same in a place that the words before the program lead to, such as those of nsenter."""
    return _run(place, PATIENCE, *arguments, **env)


def _run(
    place: tuple[str, ...], patience: float, /, *arguments: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*place, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        timeout=patience,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run_bytes(given: bytes, /, *arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the program to its end, whatever bytes it is given and prints."""
    return subprocess.run(
        [str(PROGRAM), *arguments],
        capture_output=True,
        timeout=PATIENCE,
        env=environment(**env),
        input=given,
        check=False,
    )


@contextmanager
def started(
    place: tuple[str, ...], /, *arguments: str, **env: str
) -> Iterator[subprocess.Popen[str]]:
    """The program as it goes on by itself; killed in the end, if it has not ended."""
    with subprocess.Popen(
        [*place, str(PROGRAM), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(**env),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(*arguments: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the first line it prints."""
    with subprocess.Popen(
        [str(PROGRAM), "store", "serve", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**env),
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


@dataclass
class Client:
    """The verbs of `unisono store` on one store."""

    endpoint: str
    kind: str = "unisono"

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [str(PROGRAM), "store", verb, *arguments, "-e", self.endpoint]

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run("store", verb, *arguments, "-e", self.endpoint)

    def raw(self, verb: str, *arguments: str, given: bytes = b"") -> bytes:
        """What a verb that succeeds prints, as bytes."""
        return subprocess.run(
            self.command(verb, *arguments),
            input=given,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
            env=environment(),
            check=True,
        ).stdout

    def out(self, verb: str, *arguments: str) -> str:
        """What a verb that succeeds prints."""
        return self.raw(verb, *arguments).decode()

    def json(self, verb: str, *arguments: str) -> Any:  # noqa: ANN401
        return json.loads(self.out(verb, *arguments, "--json"))

    @contextmanager
    def started(self, verb: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A verb that goes on by itself."""
        with started((), *self.command(verb, *arguments)[1:]) as process:
            yield process


def secret_file(path: Path, content: str) -> str:
    """A secret that nobody else can read."""
    path.write_text(content + "\n")
    path.chmod(0o600)
    return str(path)


def assert_one_line(result: subprocess.CompletedProcess[str], code: int) -> None:
    """The program failed as it should: with this code and one line that says why."""
    assert result.returncode == code, result.stderr
    assert result.stderr.startswith("unisono: ")
    assert result.stderr.count("\n") == 1


def push(endpoint: str, *queues: str) -> None:
    """Two elements for each queue, as the wire protocol has it."""
    host, port = endpoint.removeprefix("tcp://").split(":")

    def blob(text: str) -> bytes:
        return len(text).to_bytes(8, "little") + text.encode()

    with socket.create_connection((host, int(port)), timeout=PATIENCE) as raw:
        raw.sendall(b"\x00" + (0x3C85F7CE).to_bytes(4, "little"))
        for queue in queues:
            raw.sendall(2 * (b"\x0e" + blob(f"/{queue}") + blob("element")))
        raw.sendall(b"\x0d" + (7).to_bytes(4, "little"))  # PING: all before it has been done
        assert raw.recv(4, socket.MSG_WAITALL) == (7).to_bytes(4, "little")


def check_of(key: str) -> bytes:
    """The request that asks whether one key is there."""
    name = f"/{key}".encode()
    return b"\x05" + (1).to_bytes(8, "little") + len(name).to_bytes(8, "little") + name


def swap_of(key: str) -> bytes:
    """How the request begins that sets a key which is not set, in the form of our server."""
    name = f"/{key}".encode()
    return b"\x82" + len(name).to_bytes(8, "little") + name


@contextmanager
def relaying(endpoint: str, change: Callable[[bytes], bytes]) -> Iterator[str]:
    """The endpoint of a relay to a server; what clients send goes through `change`."""
    host, port = endpoint.removeprefix("tcp://").split(":")

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            near: socket.socket = self.request
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as far:
                while True:
                    for source in select.select([near, far], [], [], PATIENCE)[0]:
                        data = source.recv(65536)
                        if not data:
                            return
                        if source is near:
                            far.sendall(change(data))
                        else:
                            near.sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        relay.daemon_threads = True
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        try:
            yield f"tcp://127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()


@contextmanager
def losing(endpoint: str, request: bytes) -> Iterator[str]:
    """The endpoint of a relay to a server, which loses `request` the first time that it comes."""
    lost = threading.Event()

    def lose(data: bytes) -> bytes:
        if not data.endswith(request) or lost.is_set():
            return data
        lost.set()
        return data.removesuffix(request)

    with relaying(endpoint, lose) as relay:
        yield relay
    assert lost.is_set(), "the request never came"


@contextmanager
def before(endpoint: str, request: bytes, act: Callable[[], object]) -> Iterator[str]:
    """The endpoint of a relay to a server, which acts before `request` passes the first time."""
    came = threading.Event()

    def watch(data: bytes) -> bytes:
        if request in data and not came.is_set():
            came.set()
            act()
        return data

    with relaying(endpoint, watch) as relay:
        yield relay
    assert came.is_set(), "the request never came"
