"""`unisono run`: a secret for every job, and who gets to its store without it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.launching import launch, launched, shell
from tests.cli.program import NEEDS_PROGRAM, PATIENCE, assert_one_line, push, run, secret_file

pytestmark = NEEDS_PROGRAM

SHOW = (
    sys.executable,
    "-uc",
    "import json, os, time; print(json.dumps(dict(os.environ))); time.sleep(1000)",
)


@contextmanager
def job(*options: str, **env: str) -> Iterator[dict[str, str]]:
    """The environment of a rank, as long as its job runs."""
    with launched("--prefix", "none", *options, *SHOW, **env) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.terminate()
        process.wait(timeout=PATIENCE)


def master(rank: dict[str, str]) -> str:
    return f"tcp://{rank['MASTER_ADDR']}:{rank['MASTER_PORT']}"


def test_every_job_has_a_secret_that_only_its_user_can_read(tmp_path: Path) -> None:
    with job("--log-dir", str(tmp_path)) as one, job() as other:
        files = [Path(rank["UNISONO_AUTH_SECRET_FILE"]) for rank in (one, other)]
        secrets = {path.read_text() for path in files}

        assert len(secrets) == 2
        assert all(len(secret) == 64 for secret in secrets)
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
        assert not any(secret in str(one) + str(other) for secret in secrets)

    assert not any(path.exists() for path in files)
    assert list(tmp_path.iterdir()), "the logs stay, the secret does not"


def test_who_has_another_secret_is_refused(tmp_path: Path) -> None:
    wrong = secret_file(tmp_path / "wrong", "known to somebody else")
    with job() as rank:
        for endpoint in (rank["UNISONO_STORE"], master(rank)):
            refused = run("store", "get", "k", "-e", endpoint, "--secret-file", wrong)

            assert_one_line(refused, 6)
            assert "[AUTH_FAILED]" in refused.stderr


def test_ranks_reach_the_store_with_the_secret_and_stock_clients_where_the_master_is() -> None:
    with job() as rank:
        secret = ("--secret-file", rank["UNISONO_AUTH_SECRET_FILE"])
        push(master(rank), "queue")  # as PyTorch's clients do it
        for endpoint in (rank["UNISONO_STORE"], master(rank)):
            assert run("store", "set", "k", endpoint, "-e", endpoint, *secret).returncode == 0
            assert run("store", "get", "k", "-e", endpoint, *secret).stdout == f"{endpoint}\n"
        assert run("store", "get", "k", "-e", master(rank)).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_other_users_of_the_host_are_refused() -> None:
    connect = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
    ask = "s.sendall(bytes.fromhex('00cef7853c0d07000000')); print(s.recv(4).hex())"
    with job() as rank:
        for user, answer in ((None, "07000000"), (65534, "")):
            done = subprocess.run(
                ["/usr/bin/python3", "-c", connect + ask, rank["MASTER_PORT"]],
                user=user,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.stdout.strip() == answer, done.stderr


def test_one_node_is_served_on_loopback_whatever_its_name() -> None:
    with job("--master-addr", "192.0.2.1", "--master-port", "0") as rank:
        assert rank["MASTER_ADDR"] == "127.0.0.1"
        assert rank["UNISONO_STORE"].startswith("tcp://127.0.0.1:")


def listening_at(process: int) -> list[str]:
    """The addresses, as the kernel writes them."""
    mine = {str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()}
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine]


def test_the_launcher_listens_on_no_address_but_loopback() -> None:
    with launched("--prefix", "none", "-n", "2", *SHOW) as process:
        assert process.stdout is not None
        process.stdout.readline()

        there = listening_at(process.pid)

        assert there
        assert set(there) <= {"0100007F", "00000000000000000000000001000000"}


def test_a_secret_of_the_users_is_taken(tmp_path: Path) -> None:
    mine = secret_file(tmp_path / "mine", "known to nobody else")
    with job(UNISONO_AUTH_SECRET_FILE=mine) as rank:
        assert rank["UNISONO_AUTH_SECRET_FILE"] == mine
        pinged = run("store", "ping", rank["UNISONO_STORE"], "--secret-file", mine)
        assert pinged.returncode == 0, pinged.stderr


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    mine = Path(secret_file(tmp_path / "mine", "known to nobody else"))
    mine.chmod(0o644)
    done = launch(*shell("echo started"), UNISONO_AUTH_SECRET_FILE=str(mine))

    assert_one_line(done, 3)
    assert "chmod 600" in done.stderr
    assert done.stdout == ""
