"""`unisono store bench`: figures of our server, also beside others."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    PROGRAM,
    assert_one_line,
    environment,
    is_gone,
    run,
    run_for,
    serving,
    wait_until,
)

pytestmark = NEEDS_PROGRAM

QUICK = ("--rounds", "2", "--seconds", "0.02", "--clients", "1,3")

# The program gives each start of another library 60 s, and asks for its version first: what is
# slow must be reported by the program, not cut off here.
PATIENCE_WITH_TORCH = 4 * 60.0


def bench(*arguments: str, **env: str) -> dict[str, Any]:
    return bench_for(PATIENCE, *arguments, **env)


def bench_for(patience: float, *arguments: str, **env: str) -> dict[str, Any]:
    done = run_for(patience, "store", "bench", "--json", *QUICK, *arguments, **env)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "unisono-store-bench/1"
    return document


def test_shows_on_a_terminal_how_far_it_is_and_leaves_nothing_of_it() -> None:
    reader, terminal = pty.openpty()
    words = (*QUICK, "--verbs", "get")
    with subprocess.Popen(
        [str(PROGRAM), "store", "bench", *words],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env=environment(),
    ) as process:
        os.close(terminal)
        shown = b"".join(read_to_the_end(reader))
        assert process.wait(PATIENCE) == 0

    steps = 2 * 2  # rounds and numbers of clients
    places = [shown.index(b"\rmeasuring %d of %d" % (i + 1, steps)) for i in range(steps)]
    assert places == sorted(places)
    assert shown.endswith(b"\r\x1b[K")


def read_to_the_end(reader: int) -> Iterator[bytes]:
    """What a terminal is sent, until nobody has it open any more."""
    with contextlib.suppress(OSError), open(reader, "rb", buffering=0) as stream:
        while piece := stream.read(4096):
            yield piece


def test_measures_a_server_of_its_own() -> None:
    document = bench("--depth", "1,8", "--verbs", "add,get,set,check")

    assert {row["peer"] for row in document["rows"]} == {"unisono"}
    assert len(document["rows"]) == 4 * 2 * 2
    for row in document["rows"]:
        assert row["ops_per_s"] > 0
        assert 0 < row["p50_us"] <= row["p99_us"]
        assert row["ratio"] is None
    assert document["environment"]["processor"]


def test_names_the_limit_of_open_files_that_is_too_low_for_its_clients() -> None:
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 100; exec {PROGRAM} store bench --clients 16,200"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "needs 264 open files, but this process may have 100 (RLIMIT_NOFILE)" in done.stderr
    assert "ulimit -Hn 264" in done.stderr


def test_compares_with_pytorch_and_redis() -> None:
    document = bench_for(
        PATIENCE_WITH_TORCH, "--compare", "torch,redis", "--python", sys.executable
    )

    assert document["missing"] == {}
    assert set(document["peers"]) == {"unisono", "torch", "redis"}
    assert document["peers"]["torch"].startswith("2.13.0")
    ratios = [row["ratio"] for row in document["rows"] if row["peer"] != "unisono"]
    assert len(ratios) == 2 * 2 * 2
    assert all(ratio > 0 for ratio in ratios)


def test_names_the_peers_that_are_missing(tmp_path: Path) -> None:
    document = bench(
        "--compare",
        "torch,redis",
        "--python",
        "no-such-python",
        PATH=str(tmp_path),
    )

    assert "redis-server" in document["missing"]["redis"]
    assert "--python" in document["missing"]["torch"]
    assert {row["peer"] for row in document["rows"]} == {"unisono"}


def test_a_python_without_torch_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)

    document = bench("--compare", "torch", "--python", str(python))

    assert "cannot import torch" in document["missing"]["torch"]


def test_tells_when_a_peer_is_slow_to_start(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nwhile ! [ -e {tmp_path}/told ]; do sleep 0.05; done\nexit 1\n")
    python.chmod(0o755)
    with subprocess.Popen(
        [PROGRAM, "store", "bench", *QUICK, "--json", "--compare", "torch", "--python", python],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as measuring:
        assert measuring.stderr is not None
        line = measuring.stderr.readline()
        (tmp_path / "told").touch()
        document, _ = measuring.communicate(timeout=PATIENCE)

    assert line.startswith("unisono: torch has been starting for ")
    assert "it will be left out after 1m" in line
    assert "torch" in json.loads(document)["missing"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--depth", "100000", "--value-size", "1048576", "--verbs", "set"),
        ("--depth", "2000", "--value-size", "1048576", "--verbs", "add,get", "--clients", "1"),
        ("--depth", "100000", "--clients", "1000", "--verbs", "add"),
    ],
)
def test_refuses_more_at_once_than_can_be_held(arguments: tuple[str, ...]) -> None:
    done = run("store", "bench", *arguments)

    assert_one_line(done, 2)
    assert "under way at once: that is " in done.stderr
    assert "--depth" in done.stderr


def test_a_large_value_of_which_nothing_is_asked_does_not_count() -> None:
    bench("--depth", "2000", "--value-size", "1048576", "--verbs", "add")


def test_draws_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "rates.svg"

    bench("--plot", str(picture))

    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_says_when_the_picture_cannot_be_written(tmp_path: Path) -> None:
    done = run("store", "bench", "--seconds", "60", "--plot", str(tmp_path / "no" / "rates.svg"))

    assert_one_line(done, 1)  # at once, not after the measurements
    assert "cannot write" in done.stderr
    assert "No such file" in done.stderr


def test_measures_a_server_that_runs_already() -> None:
    with serving("--port", "0", "--json") as (_, line):
        document = bench("--endpoint", json.loads(line)["endpoint"])

    assert {row["peer"] for row in document["rows"]} == {"endpoint"}


def test_compares_a_server_that_runs_already_with_others(tmp_path: Path) -> None:
    with serving("--port", "0", "--json") as (_, line):
        endpoint = json.loads(line)["endpoint"]
        document = bench("--endpoint", endpoint, "--compare", "redis", PATH=str(tmp_path))

    assert {row["peer"] for row in document["rows"]} == {"endpoint"}
    assert "redis-server" in document["missing"]["redis"]


def test_an_endpoint_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        done = run("store", "bench", *QUICK, "--endpoint", url, "--timeout", "0.2")

    assert_one_line(done, 3)
    assert time.monotonic() - begin < 5


def test_says_less_when_asked_to() -> None:
    done = run("store", "bench", *QUICK, "-q", "--color", "never")

    assert done.returncode == 0
    assert done.stdout.startswith("peer ")


def test_names_missing_peers_although_it_says_less(tmp_path: Path) -> None:
    done = run("store", "bench", *QUICK, "-q", "--compare", "redis", PATH=str(tmp_path))

    assert done.returncode == 0
    assert "redis was left out: there is no redis-server" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ends_with_the_code_of_the_signal(number: signal.Signals) -> None:
    """As from a terminal: the signal goes to its server, too."""
    with subprocess.Popen(
        [PROGRAM, "store", "bench", "--seconds", "30", "--clients", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as measuring:
        children = Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children")
        wait_until("its server", lambda: children.read_text() != "")
        server = int(children.read_text().split()[0])
        os.killpg(measuring.pid, number)
        _, complaint = measuring.communicate(timeout=PATIENCE)

    assert (measuring.returncode, complaint) == (128 + number, "")
    wait_until("the end of its server", partial(is_gone, server))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_leaves_no_file_when_it_is_ended_while_torch_starts(
    tmp_path: Path, number: signal.Signals
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho >{tmp_path}/runs\nexec sleep 600\n")
    python.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [PROGRAM, "store", "bench", "--compare", "torch", "--python", python],
        stdout=subprocess.DEVNULL,
        env=environment(TMPDIR=str(temporary)),
    ) as measuring:
        wait_until("the start of torch", (tmp_path / "runs").exists)
        measuring.send_signal(number)
        code = measuring.wait(timeout=PATIENCE)

    assert code == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert list(temporary.iterdir()) == []


def test_leaves_nothing_running() -> None:
    with subprocess.Popen(
        [PROGRAM, "store", "bench", "--seconds", "30", "--clients", "1"], stdout=subprocess.DEVNULL
    ) as measuring:
        children = Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children")
        wait_until("its server", lambda: children.read_text() != "")
        servers = [int(pid) for pid in children.read_text().split()]
        measuring.kill()
        measuring.wait(timeout=PATIENCE)

    for server in servers:
        wait_until("the end of its server", partial(is_gone, server))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--verbs", "ad"), "ad"),
        (("--clients", "0"), "0"),
        (("--clients", "many"), "many"),
        (("--compare", "etcd"), "etcd"),
        (("--seconds", "0"), "0"),
        (("--endpoint", "nowhere"), "tcp://host:port"),
        (("--endpoint", "tcp://127.0.0.1:1/prefix"), "without a prefix"),
        (("--endpoint", "file:///tmp/store"), "this is a file"),
        (("--color", "red"), "red"),
    ],
)
def test_refuses_what_makes_no_sense(arguments: tuple[str, ...], says: str) -> None:
    done = run("store", "bench", *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
