"""Stores whose clients and servers prove to each other that they know a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import NEEDS_PROGRAM, assert_one_line, run, secret_file, serving

pytestmark = NEEDS_PROGRAM

SECRET = "known to nobody else"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    return secret_file(tmp_path / "secret", SECRET)


@pytest.mark.parametrize("loop", ["libuv", "poll"])
def test_those_with_the_secret_use_the_store(secret: str, loop: str) -> None:
    words = ("--port", "0", "--json", "--loop", loop, "--secret-file", secret)
    with serving(*words) as (_, line):
        assert json.loads(line)["secret"] is True
        place = ("-e", json.loads(line)["endpoint"])

        assert run("store", "set", "k", "v", *place, "--secret-file", secret).returncode == 0
        # The environment says the same, in either way.
        by_file = run("store", "get", "k", *place, UNISONO_AUTH_SECRET_FILE=secret)
        assert by_file.stdout == "v\n"
        assert run("store", "get", "k", *place, UNISONO_AUTH_SECRET=SECRET).stdout == "v\n"


def test_those_with_another_or_none_do_not(secret: str, tmp_path: Path) -> None:
    other = secret_file(tmp_path / "other", "known to somebody else")
    words = ("--port", "0", "--json", "--secret-file", secret)
    with serving(*words, UNISONO_STORE_ADMIT_LOCAL="0") as (_, line):
        place = ("-e", json.loads(line)["endpoint"])

        refused = run("store", "get", "k", *place, "--secret-file", other)
        assert_one_line(refused, 6)
        assert "[AUTH_FAILED]" in refused.stderr
        assert "another secret" in refused.stderr

        refused = run("store", "get", "k", *place, "--timeout", "0.5")
        assert_one_line(refused, 3)
        assert "UNISONO_AUTH_SECRET_FILE" in refused.stderr


def test_those_of_the_same_host_need_none(secret: str) -> None:
    with serving("--port", "0", "--json", "--secret-file", secret) as (_, line):
        place = ("-e", json.loads(line)["endpoint"])

        assert run("store", "set", "k", "v", *place).returncode == 0
        assert run("store", "get", "k", *place, "--secret-file", secret).stdout == "v\n"


def test_a_server_without_a_secret_is_not_for_those_who_have_one(secret: str) -> None:
    with serving("--port", "0", "--json") as (_, line):
        assert json.loads(line)["secret"] is False
        place = ("-e", json.loads(line)["endpoint"])

        refused = run("store", "ping", *place, "--timeout", "60", "--secret-file", secret)
        assert_one_line(refused, 6)
        assert "has no secret while this process has one" in refused.stderr


def test_with_a_secret_a_server_may_be_public(secret: str) -> None:
    words = ("--bind", "0.0.0.0", "--port", "0", "--json", "--secret-file", secret)
    with serving(*words) as (_, line):
        place = ("-e", f"tcp://127.0.0.1:{json.loads(line)['port']}")

        assert run("store", "ping", *place, "--secret-file", secret).returncode == 0


def test_a_secret_that_cannot_be_used_is_refused(secret: str, tmp_path: Path) -> None:
    readable = Path(secret_file(tmp_path / "readable", SECRET))
    readable.chmod(0o644)
    short = secret_file(tmp_path / "short", "short")
    for path, why in ((str(readable), "chmod 600"), (short, "5 bytes"), ("/none", "ENOENT")):
        for verb in (("serve", "--port", "0"), ("ping", "tcp://127.0.0.1:1")):
            refused = run("store", *verb, "--secret-file", path)
            assert_one_line(refused, 3)
            assert why in refused.stderr

    assert_one_line(run("store", "serve", "--secret-file", ""), 2)


def test_bench_measures_a_server_of_its_own_although_there_is_a_secret(secret: str) -> None:
    words = ("--rounds", "1", "--seconds", "0.01", "--clients", "1", "--verbs", "add")
    done = run("store", "bench", *words, UNISONO_AUTH_SECRET_FILE=secret)
    assert done.returncode == 0, done.stderr

    refused = run(
        "store", "bench", "-e", "tcp://127.0.0.1:1", *words, UNISONO_AUTH_SECRET_FILE=secret
    )
    assert_one_line(refused, 2)


def test_info_does_not_show_the_secret() -> None:
    for more in ((), ("--json",)):
        shown = run("info", "--env", *more, UNISONO_AUTH_SECRET=SECRET).stdout

        assert "UNISONO_AUTH_SECRET" in shown
        assert SECRET not in shown
