"""Everything that can be wrong on a command line: one line, the documented code, nothing done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    Client,
    assert_one_line,
    environment,
    run,
    serving,
    wait_until,
)

pytestmark = NEEDS_PROGRAM

WATCH = ("watch", "--existing")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add", "k", "9223372036854775808"), "'9223372036854775808' is not a whole number"),
        (("add", "k", "-9223372036854775809"), "is not a whole number"),
        (("add", "k", ""), "'' is not a whole number"),
        (("add", "k", "0x10"), "'0x10' is not a whole number"),
        (("add", "k", "1.5"), "'1.5' is not a whole number"),
        (("add", "k", "+-1"), "'+-1' is not a whole number"),
        ((*WATCH, "--count", "-1"), "-1 is out of range, which is 0 or more"),
        ((*WATCH, "--count", "99999999999999999999"), "is not a whole number"),
        ((*WATCH, "--interval", "0x1p3"), "'0x1p3' is not a number of seconds"),
        (("wait", "k", "--timeout", "nan"), "'nan' is not a number of seconds"),
        (("wait", "k", "--timeout", "-1"), "'-1' is not a number of seconds"),
        (("wait", "k", "--timeout", ""), "'' is not a number of seconds"),
        (("get", "k", "--wait", "1e400"), "'1e400' is not a number of seconds"),
        (("cas", "k", "-", "-"), "standard input cannot be both OLD and NEW"),
        (("ping", "tcp://127.0.0.1:1"), "excludes"),
    ],
)
def test_a_verb_refuses_it(store: Client, arguments: tuple[str, ...], says: str) -> None:
    store.run("set", "k", "1")
    done = store.run(*arguments)

    assert_one_line(done, 2)
    assert says in done.stderr
    assert store.out("get", "k") == "1\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("serve", "--port", ""), "'' is not a whole number, 0 to 65535"),
        (("serve", "--port", "0x10"), "'0x10' is not a whole number"),
        (("serve", "--port", "65536"), "65536 is out of range, which is 0 to 65535"),
        (("bench", "--seconds", "nan"), "'nan' is not a number of seconds"),
        (("bench", "--seconds", "61"), "61 s is out of range, which is 0.01 to 60"),
        (("bench", "--rounds", "0"), "0 is out of range, which is 1 to 1000"),
        (("bench", "--clients", "1,x"), "'x' is not a whole number"),
    ],
)
def test_a_server_or_a_measurement_refuses_it(arguments: tuple[str, ...], says: str) -> None:
    done = run("store", *arguments)

    assert_one_line(done, 2)
    assert says in done.stderr


def test_a_number_is_decimal_whatever_it_begins_with(store: Client) -> None:
    assert store.out("add", "k", "010") == "10\n"
    assert store.out("add", "k", "+2") == "12\n"
    assert store.out("add", "low", "-9223372036854775808") == "-9223372036854775808\n"


def test_the_last_of_an_option_counts(store: Client) -> None:
    store.run("set", "k", "v")

    assert store.out("get", "k", "--timeout", "7", "--timeout", "5") == "v\n"
    assert run("store", "ping", "-e", "tcp://127.0.0.1:1", "-e", store.endpoint).returncode == 0


def test_a_file_without_an_end_is_given_up(store: Client) -> None:
    done = store.run("set", "k", "@/dev/zero")

    assert_one_line(done, 1)
    assert "/dev/zero: it holds more than 256 MiB" in done.stderr


def test_a_file_without_a_name_is_shown_as_such(store: Client) -> None:
    for arguments in (("set", "k", "@"), ("load", ""), ("dump", "")):
        done = store.run(*arguments)

        assert_one_line(done, 1)
        assert "''" in done.stderr


def test_a_picture_in_place_of_a_folder_is_refused_before_measuring(tmp_path: Path) -> None:
    done = run("store", "bench", "--seconds", "60", "--plot", str(tmp_path))

    assert_one_line(done, 1)
    assert "Is a directory" in done.stderr


def test_bench_gives_up_a_server_that_stops_answering() -> None:
    with (
        serving("--port", "0", "--json") as (server, line),
        subprocess.Popen(
            Client(json.loads(line)["endpoint"]).command(
                "bench", "--seconds", "60", "--clients", "3", "--timeout", "2"
            ),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment(),
        ) as measuring,
    ):
        store = Client(json.loads(line)["endpoint"])
        wait_until("its clients", lambda: store.json("stats")["connections"] >= 4)
        server.send_signal(signal.SIGSTOP)
        _, complaint = measuring.communicate(timeout=PATIENCE)

    assert measuring.returncode == 4
    assert "was broken off: no answer for 2s. DO: " in complaint
    assert complaint.count("\n") == 1


def test_ctrl_c_ends_load_while_it_reads_a_large_dump(store: Client, tmp_path: Path) -> None:
    entries = 600_000
    lines = (b'{"key":"k%d","value":"v"}\n' % number for number in range(entries))
    body = b'{"schema":"unisono-store-dump/1"}\n' + b"".join(lines)
    end = b'{"end":true,"count":%d,"crc32":"%08x"}\n' % (entries, zlib.crc32(body))
    (tmp_path / "large").write_bytes(body + end)
    command = store.command("load", str(tmp_path / "large"), "--force")
    whole = cpu_seconds_of(command, 0)

    assert cpu_seconds_of(command, len(body)) < 0.8 * whole


def cpu_seconds_of(command: list[str], interrupted_at: int) -> float:
    """What a command works for; if asked to, Ctrl-C comes once it holds so many bytes."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment()) as process:
        if interrupted_at:
            memory = Path(f"/proc/{process.pid}/statm")
            wait_until(
                "the file to be read",
                lambda: (
                    int(memory.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") > interrupted_at
                ),
            )
            process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == (130 if interrupted_at else 0)
    return usage.ru_utime + usage.ru_stime
