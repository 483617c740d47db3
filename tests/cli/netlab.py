"""Two hosts that are only network namespaces, each with an address for the other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.cli.program import PATIENCE


@dataclass(frozen=True)
class Host:
    """A network namespace, which lives as long as a process in it."""

    address: str
    enter: tuple[str, ...]  # the words before a command that is to run there


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)


@contextmanager
def _namespace() -> Iterator[int]:
    holder = ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 1000"]
    with subprocess.Popen(holder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            if process.stdout.readline() != b"ready\n":
                pytest.skip(f"no network namespaces here: {process.stderr.read().decode()}")
            yield process.pid
        finally:
            process.kill()


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Skips the test where namespaces cannot be made."""
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"no network namespaces here: there is no program {program}")
    with ExitStack() as stack:
        hosts = []
        for number in (1, 2):
            pid = stack.enter_context(_namespace())
            hosts.append(Host(f"10.77.0.{number}", ("nsenter", f"--net=/proc/{pid}/ns/net")))
        first, second = hosts
        pids = [host.enter[1].split("/")[2] for host in hosts]
        try:
            _run(
                *first.enter,
                *("ip", "link", "add", "eth0", "type", "veth"),
                *("peer", "name", "eth0", "netns", pids[1]),
            )
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
        for host in hosts:
            _run(*host.enter, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            _run(*host.enter, "ip", "link", "set", "lo", "up")
            _run(*host.enter, "ip", "link", "set", "eth0", "up")
        yield first, second
