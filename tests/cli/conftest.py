"""Stores of every kind, for the verbs to work on."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.program import Client, serving

TORCH_SERVER = """
import sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                      use_libuv=sys.argv[1] == "libuv")
print(store.port, flush=True)
sys.stdin.read()
"""
TORCH_FILES = """
import sys
import torch.distributed as dist
stores = []
print("ready", flush=True)
for path in sys.stdin:
    stores.append(dist.FileStore(path.rstrip()))
    stores[-1].set("from torch", "here")
    print("made", flush=True)
"""
KINDS = ("unisono-libuv", "unisono-poll", "torch-libuv", "torch-poll", "file", "torch-file")


@contextmanager
def torch_process(script: str, argument: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with PyTorch that lives as long as it is needed, and the first line it prints."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: run scripts/setup.sh")
    with subprocess.Popen(
        [sys.executable, "-c", script, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="session")
def torch_libuv() -> Iterator[str]:
    """The port of a server of PyTorch's."""
    with torch_process(TORCH_SERVER, "libuv") as (_, port):
        yield port


@pytest.fixture(scope="session")
def torch_poll() -> Iterator[str]:
    """The port of PyTorch's other server."""
    with torch_process(TORCH_SERVER, "poll") as (_, port):
        yield port


@pytest.fixture(scope="session")
def torch_files() -> Iterator[subprocess.Popen[str]]:
    """A process with PyTorch that opens a FileStore for every path it is given."""
    with torch_process(TORCH_FILES) as (process, _):
        yield process


@pytest.fixture
def store() -> Iterator[Client]:
    """A server of ours."""
    with serving("--port", "0", "--json") as (_, line):
        yield Client(json.loads(line)["endpoint"])


@pytest.fixture(params=KINDS)
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Each kind of store in turn, empty but for what its maker leaves there."""
    kind: str = request.param
    family, _, part = kind.partition("-")
    if family == "unisono":
        with serving("--port", "0", "--json", "--loop", part) as (_, line):
            yield Client(json.loads(line)["endpoint"], kind)
        return
    if part == "file":
        files: subprocess.Popen[str] = request.getfixturevalue("torch_files")
        assert files.stdin is not None and files.stdout is not None
        files.stdin.write(f"{tmp_path}/store\n")
        files.stdin.flush()
        assert files.stdout.readline() == "made\n"
    elif family == "torch":  # one server for all tests: each has a prefix of its own
        port: str = request.getfixturevalue(f"torch_{part}")
        yield Client(f"tcp://127.0.0.1:{port}/{tmp_path.name}", kind)
        return
    client = Client(f"file://{tmp_path}/store", kind)
    if part == "file":
        assert client.out("get", "from torch") == "here\n"
        client.run("del", "from torch")
    yield client
