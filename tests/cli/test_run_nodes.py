"""`unisono run` on several nodes: hosts of their own, which only the network connects."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launching import shell
from tests.cli.netlab import Host, two_hosts
from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    PROGRAM,
    assert_one_line,
    run_in,
    secret_file,
    started,
    wait_until,
)

pytestmark = NEEDS_PROGRAM

HELLO = PROGRAM.parent / "example_hello"
TORCH_PATIENCE = 120.0
TORCH_SUM = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(x)
print("sum", x.item())
dist.destroy_process_group()
"""


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as made:
        yield made


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, str]:
    path = secret_file(tmp_path / "secret", "known to nobody else")
    return {"UNISONO_AUTH_SECRET_FILE": path}


def place(hosts: tuple[Host, Host], node: int) -> tuple[str, ...]:
    return ("--nnodes", "2", "--node-rank", str(node), "--master-addr", hosts[0].address)


def run_on_both(hosts: tuple[Host, Host], patience: float, /, *words: str, **env: str) -> list[str]:
    """Runs a job to its good end, the second node first; the lines of all its ranks."""
    with (
        started(hosts[1].enter, "run", *place(hosts, 1), *words, UNISONO_HOST_ID="b", **env) as b,
        started(hosts[0].enter, "run", *place(hosts, 0), *words, UNISONO_HOST_ID="a", **env) as a,
    ):
        ends = [node.communicate(timeout=patience) for node in (a, b)]
    assert (a.returncode, b.returncode) == (0, 0), ends
    return sorted("".join(out for out, _ in ends).splitlines())


@pytest.mark.skipif(not HELLO.exists(), reason=f"{HELLO} has not been built")
def test_ranks_of_two_hosts_with_a_secret_find_each_other(
    hosts: tuple[Host, Host], secret: dict[str, str]
) -> None:
    assert run_on_both(hosts, PATIENCE, "-n", "2", str(HELLO), **secret) == [
        f"{socket.gethostname()}:{rank}: rank {rank} of 4: the ranks add up to 6"
        for rank in range(4)
    ]


def test_the_master_is_on_loopback_and_the_store_is_not(
    hosts: tuple[Host, Host], secret: dict[str, str]
) -> None:
    show = "echo $MASTER_ADDR $UNISONO_STORE $UNISONO_HOST_ADDR"

    assert run_on_both(hosts, PATIENCE, "--prefix", "none", *shell(show), **secret) == [
        f"localhost tcp://10.77.0.1:29500 {host.address}" for host in hosts
    ]


def test_who_does_not_know_the_secret_is_refused_from_another_host(
    hosts: tuple[Host, Host], secret: dict[str, str], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    script = shell(f'touch "{ready}"; exec sleep 1000')
    options = ("--nnodes", "2", "--node-rank", "0", "--master-addr", hosts[0].address)
    with started(hosts[0].enter, "run", *options, *script, **secret) as job:
        wait_until("the rank", ready.exists)
        assert job.poll() is None
        endpoint = ("-e", f"tcp://{hosts[0].address}:29500", "--timeout", "5")
        known = run_in(hosts[1].enter, "store", "keys", *endpoint, **secret)
        assert known.returncode == 0, known.stderr
        stranger = run_in(hosts[1].enter, "store", "keys", *endpoint)
        assert_one_line(stranger, 3)


def test_several_hosts_without_a_secret_are_refused(hosts: tuple[Host, Host]) -> None:
    done = run_in(hosts[0].enter, "run", *place(hosts, 0), "true")

    assert_one_line(done, 3)
    assert "UNISONO_AUTH_SECRET_FILE" in done.stderr


def test_a_node_whose_secret_is_another_is_told(
    hosts: tuple[Host, Host], secret: dict[str, str], tmp_path: Path
) -> None:
    other = secret_file(tmp_path / "other", "known to somebody else")
    script = shell("exec sleep 1000")
    with started(hosts[0].enter, "run", *place(hosts, 0), *script, **secret):
        done = run_in(
            hosts[1].enter, "run", *place(hosts, 1), *script, UNISONO_AUTH_SECRET_FILE=other
        )

    assert_one_line(done, 6)
    assert "[AUTH_FAILED]" in done.stderr


def test_ranks_of_torch_on_two_hosts_meet(
    hosts: tuple[Host, Host], secret: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "sum.py"
    script.write_text(TORCH_SUM)
    lines = run_on_both(
        hosts,
        TORCH_PATIENCE,
        str(script),
        PYTHON_EXEC=sys.executable,
        GLOO_SOCKET_IFNAME="eth0",
        **secret,
    )

    assert lines == [f"{socket.gethostname()}:{rank}: sum 3" for rank in range(2)]
