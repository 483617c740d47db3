"""What all commands have in common: their options, their help, and how they take mistakes."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    PROGRAM,
    ROOT,
    Client,
    assert_one_line,
    environment,
    run,
    serving,
)

pytestmark = NEEDS_PROGRAM

VERSION = (ROOT / "VERSION").read_text().strip()
SMALL = ("--rounds", "1", "--seconds", "0.01", "--clients", "1")
SMALL_BENCH = ("barrier", "--rounds", "1", "-n", "3")

# Every command with words that make it succeed on a store in which `k` is 1; FILE stands for a
# file of the test's own.
ON_A_STORE = {
    "ping": (),
    "stats": (),
    "keys": (),
    "get": ("k",),
    "set": ("new", "v"),
    "add": ("k", "1"),
    "cas": ("other", "", "v"),
    "del": ("k",),
    "wait": ("k",),
    "watch": ("--existing", "--count", "1"),
    "dump": ("FILE",),
    "load": ("FILE",),
    "bench": SMALL,
}
LEVELS = [
    (),
    ("run",),
    ("bench",),
    ("doctor",),
    ("store",),
    ("store", "serve"),
    ("info",),
    ("completion",),
] + [("store", verb) for verb in ON_A_STORE]
COMMANDS = [("info",), ("completion", "bash"), ("bench", *SMALL_BENCH), ("doctor",)] + [
    ("store", verb, *words) for verb, words in ON_A_STORE.items()
]


def name(command: tuple[str, ...]) -> str:
    return "-".join(command[:2]) or "unisono"


def runs(command: tuple[str, ...], store: Client, folder: Path, *more: str) -> str:
    """What a command that succeeds prints."""
    head = b'{"schema":"unisono-store-dump/1"}\n'
    end = b'{"end":true,"count":0,"crc32":"%08x"}\n' % zlib.crc32(head)
    (folder / "dump").write_bytes(head + end)
    words = [str(folder / "dump") if word == "FILE" else word for word in command]
    place = ("-e", store.endpoint) if "store" in words[:2] else ()
    store.run("set", "k", "1")
    done = run(*words, *place, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("level", LEVELS, ids=name)
def test_shows_the_version(level: tuple[str, ...]) -> None:
    done = run(*level, "--version")

    assert (done.returncode, done.stdout) == (0, f"unisono {VERSION}\n")


@pytest.mark.parametrize("level", LEVELS, ids=name)
def test_has_help_for_a_newcomer(level: tuple[str, ...]) -> None:
    done = run(*level, "--help")

    assert done.returncode == 0
    assert done.stdout.split("\n")[1].startswith(" ".join(("Usage: unisono", *level)))
    assert all(f"--{option} " in done.stdout for option in ("json", "version", "color"))
    assert "-v,--verbose" in done.stdout and "-q,--quiet" in done.stdout
    assert f"unisono {' '.join(level)}" in done.stdout.split("Options of every command")[1]


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_takes_the_common_options(command: tuple[str, ...], store: Client, tmp_path: Path) -> None:
    for option in ("-q", "-v", "-vv", "--color=always", "--color=never"):
        store.run("del", "k", "new", "other")
        runs(command, store, tmp_path, option)


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_prints_json_when_asked_to(command: tuple[str, ...], store: Client, tmp_path: Path) -> None:
    document = json.loads(runs(command, store, tmp_path, "--json"))

    assert isinstance(document, dict)


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_takes_the_common_options_before_its_name(
    command: tuple[str, ...], store: Client, tmp_path: Path
) -> None:
    assert json.loads(runs(("--json", *command), store, tmp_path))


@pytest.mark.parametrize("level", LEVELS, ids=name)
def test_names_the_option_that_was_meant(level: tuple[str, ...]) -> None:
    for wrong in ("--jsno", "--colr=always"):
        done = run(*level, wrong)

        assert_one_line(done, 2)
        meant = "--json" if wrong == "--jsno" else "--color"
        assert f"'{wrong}' is not known; did you mean {meant}?" in done.stderr


@pytest.mark.parametrize("level", [(), ("store",)], ids=name)
def test_names_the_commands_when_none_was_given(level: tuple[str, ...]) -> None:
    done = run(*level)

    assert_one_line(done, 2)
    assert (
        "serve, ping, stats" if level else "run, bench, store, doctor, info, completion"
    ) in done.stderr


def test_a_mistake_before_the_command_is_named_too() -> None:
    done = run("--verbos", "info")

    assert_one_line(done, 2)
    assert "did you mean --verbose?" in done.stderr


def test_info_shows_the_log_level_of_the_environment_not_its_own() -> None:
    knobs = json.loads(run("info", "--env", "--json", "-v", UNISONO_LOG="error").stdout)["env"]

    assert [knob["value"] for knob in knobs if knob["name"] == "UNISONO_LOG"] == ["error"]


def test_the_completion_in_json_is_the_script() -> None:
    for shell in ("bash", "zsh", "fish"):
        document = json.loads(run("completion", shell, "--json").stdout)

        assert document["schema"] == "unisono-completion/1"
        assert document["shell"] == shell
        assert document["script"] == run("completion", shell).stdout


def test_a_quiet_server_prints_its_endpoint_and_nothing_else() -> None:
    with serving("--port", "0", "-q") as (process, line):
        assert Client(line.strip()).run("ping").returncode == 0
        process.terminate()
        rest, _ = process.communicate(timeout=PATIENCE)

    assert line.startswith("tcp://127.0.0.1:")
    assert rest == ""


@contextmanager
def pretender() -> Iterator[str]:
    """Something that greets as a store does, and then says what no store would."""

    class Talk(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            caller: socket.socket = self.request
            hello = caller.recv(10, socket.MSG_WAITALL)  # VALIDATE and PING with a number
            caller.sendall(hello[6:])
            with suppress(ConnectionResetError):
                while caller.recv(4096):
                    caller.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


# Where the answer is a number, any eight bytes will do; elsewhere it shows.
@pytest.mark.parametrize("verb", ["keys", "get", "cas", "wait", "watch", "dump"])
def test_what_is_no_store_is_told_with_the_code_of_what_cannot_be_reached(
    verb: str, tmp_path: Path
) -> None:
    words = [str(tmp_path / "dump") if word == "FILE" else word for word in ON_A_STORE[verb]]
    with pretender() as endpoint:
        done = run("store", verb, *words, "-q", "-e", endpoint, "--timeout", "2")

    assert_one_line(done, 3)
    assert not (tmp_path / "dump").exists()


def test_a_file_that_is_no_store_is_told_with_the_same_code(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("To be, or not to be, that is the question\n")

    done = run("store", "keys", "-e", f"file://{tmp_path}/other")

    assert_one_line(done, 3)
    assert "[PROTOCOL]" in done.stderr


def test_every_command_is_in_the_table() -> None:
    script = json.loads(run("completion", "bash", "--json").stdout)["script"]

    for level in LEVELS:
        assert f"'{' '.join(('unisono', *level))}')" in script
    assert script.count("') commands=") == len(LEVELS)


def test_output_that_cannot_be_written_is_told_by_all(store: Client) -> None:
    store.run("set", "k", "v")
    for command in (("--version",), ("store", "get", "k", "-e", store.endpoint)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(PROGRAM), *command],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                env=environment(),
                check=False,
            )

        assert_one_line(done, 1)
        assert "No space left on device" in done.stderr


def test_a_level_of_logging_that_there_is_not_is_told_once_with_those_there_are(
    store: Client,
) -> None:
    store.run("set", "k", "v")
    for command in (
        ("info",),
        ("info", "--env"),
        ("completion", "bash"),
        ("store", "get", "k", "-e", store.endpoint),
    ):
        done = run(*command, UNISONO_LOG="bogus")

        assert done.returncode == 0
        assert done.stderr.count("\n") == 1
        assert "'bogus'" in done.stderr
        assert "debug, info, warn, error or off" in done.stderr
    assert run("info", "-q", UNISONO_LOG="bogus").stderr == ""
