"""watch, and how verbs end: with Ctrl-C, with their reader, on a full disk."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    PROGRAM,
    Client,
    environment,
    serving,
    wait_until,
)

pytestmark = NEEDS_PROGRAM

# The promise is 200 ms; a busy machine gets ten times as much.
QUICKLY = 2.0


def started(process: subprocess.Popen[str]) -> None:
    """Waits until watch says that it watches."""
    assert process.stderr is not None
    assert "watching" in process.stderr.readline()


def test_watch_prints_changes_as_they_happen(any_store: Client) -> None:
    any_store.run("set", "a/old", "x")
    any_store.run("set", "b/1", "x")
    with any_store.started("watch", "a/*", "--interval", "0.02") as watch:
        assert watch.stdout is not None
        started(watch)
        for arguments, line in (
            (("set", "a/1", "one"), "set a/1 = one\n"),
            (("set", "b/1", "other"), None),
            (("set", "a/1", "two"), "set a/1 = two\n"),
            (("del", "a/old"), "del a/old\n"),
        ):
            any_store.run(*arguments)
            if line:
                assert watch.stdout.readline() == line


def test_watch_in_json_is_a_document_a_line(store: Client) -> None:
    store.run("set", "k", "--hex", "ff")
    result = store.out("watch", "--existing", "--count", "1", "--json")

    assert json.loads(result) == {
        "event": "set",
        "key": "k",
        "value": "/w==",
        "encoding": "base64",
    }


def test_colours_only_where_they_are_wanted(store: Client) -> None:
    store.run("set", "k", "v")
    arguments = ("watch", "--existing", "--count", "1")

    assert "\033[" not in store.out(*arguments)
    assert "\033[32mset\033[0m k" in store.out(*arguments, "--color", "always")


@pytest.mark.parametrize("arguments", [("watch",), ("wait", "never"), ("get", "x", "--wait", "60")])
def test_ctrl_c_ends_it_at_once_with_130(store: Client, arguments: tuple[str, ...]) -> None:
    with store.started(*arguments) as process:
        wait_until("a second connection", lambda: store.json("stats")["connections"] >= 2)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE)

    print(f"ended after {time.monotonic() - start:.3f} s")
    assert process.returncode == 130
    assert time.monotonic() - start < QUICKLY
    assert "terminate" not in complaint
    assert store.json("stats")["connections"] == 1


def test_ctrl_c_ends_it_while_it_connects_or_reads() -> None:
    nobody = Client("tcp://127.0.0.1:1")
    for arguments in (("ping", "--timeout", "60"), ("set", "k", "-")):
        with subprocess.Popen(
            nobody.command(*arguments), stdin=subprocess.PIPE, env=environment()
        ) as process:
            wait_until_it_handles_signals(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 130


def wait_until_it_handles_signals(pid: int) -> None:
    def handles() -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        return bool(int(status.split("SigCgt:")[1].split()[0], 16) & (1 << (signal.SIGINT - 1)))

    wait_until("a handler of SIGINT", handles)


def test_watch_ends_with_its_reader_although_nothing_changes(store: Client) -> None:
    with store.started("watch") as watch:
        started(watch)
        assert watch.stdout is not None
        watch.stdout.close()

        assert watch.wait(timeout=PATIENCE) == 128 + signal.SIGPIPE
        assert watch.stderr is not None
        assert watch.stderr.read() == ""


def test_watch_ends_with_the_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        [str(PROGRAM), "store", "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as server:
        assert server.stdout is not None
        client = Client(json.loads(server.stdout.readline())["endpoint"])
        with client.started("watch") as watch:
            started(watch)
            server.terminate()
            _, complaint = watch.communicate(timeout=PATIENCE)

    assert watch.returncode == 3
    assert "[STORE_LOST]" in complaint


@pytest.mark.parametrize(
    ("arguments", "connections"),
    [
        (("wait", "never"), 2),
        (("get", "never", "--wait", "60"), 2),
        (("bench", "--seconds", "60", "--clients", "3"), 4),
    ],
)
def test_a_verb_ends_with_the_server_that_is_killed(
    arguments: tuple[str, ...], connections: int
) -> None:
    with serving("--port", "0", "--json") as (server, line):
        client = Client(json.loads(line)["endpoint"])
        with client.started(*arguments) as verb:
            wait_until("it", lambda: client.json("stats")["connections"] >= connections)
            server.kill()
            _, complaint = verb.communicate(timeout=PATIENCE)

    assert verb.returncode == 3
    assert complaint.count("\n") == 1
    assert "DO: look at the process that runs the server" in complaint


@pytest.mark.parametrize("arguments", [("--help",), ("info", "--env"), ("completion", "bash")])
def test_a_closed_pipe_is_no_reason_to_complain(arguments: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [str(PROGRAM), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, complaint = process.communicate(timeout=PATIENCE)

    assert complaint == b""
    assert process.returncode in (0, 128 + signal.SIGPIPE)  # 0: it was done before


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [str(PROGRAM), "info"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "No space left on device" in result.stderr
