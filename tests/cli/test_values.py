"""get, set, add, cas, del, wait: what each prints and how it ends, on every kind of store."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    Client,
    assert_one_line,
    environment,
    push,
    run,
)

pytestmark = NEEDS_PROGRAM

BINARY = bytes(range(256))


def test_the_verbs_work_on_every_kind_of_store(any_store: Client) -> None:
    assert any_store.out("set", "a/1", "one") == ""
    assert any_store.out("get", "a/1") == "one\n"
    assert any_store.out("add", "n", "5") == "5\n"
    assert any_store.out("add", "n", "-7") == "-2\n"
    assert any_store.out("cas", "a/1", "one", "uno") == "uno\n"
    assert any_store.out("cas", "new", "", "first") == "first\n"
    assert any_store.out("keys") == "a/1\nn\nnew\n"
    assert any_store.out("keys", "a*") == "a/1\n"
    assert any_store.out("wait", "a/1", "n") == ""
    assert any_store.out("del", "a/1") == ""
    assert any_store.out("del", "--prefix", "n") == "deleted 2 keys\n"
    assert any_store.out("keys") == ""


def test_a_key_that_is_not_set_is_told_and_1(any_store: Client) -> None:
    any_store.run("set", "other", "x")

    assert_one_line(any_store.run("get", "k"), 1)
    assert_one_line(any_store.run("del", "k"), 1)


@pytest.mark.parametrize("key", ["[a,b]", "[]", "[a]", "[a", "[a]\x1f", "a]", "%%", "{}", "a,b"])
def test_a_key_is_one_word_whatever_is_in_it(store: Client, key: str) -> None:
    for other in ("a", "b"):
        store.run("set", other, "stays")
    assert store.out("set", key, key) == ""

    assert store.out("wait", key, "a") == ""
    assert store.out("get", key) == store.out("cas", key, key, key)
    assert store.out("del", "a", key) == ""

    assert store.out("keys") == "b\n"


def test_to_wait_for_a_word_in_brackets_is_not_to_wait_for_a_list(store: Client) -> None:
    for key in ("a", "b"):
        store.run("set", key, "there")

    assert_one_line(store.run("wait", "[a,b]", "--timeout", "1"), 4)


def test_a_word_in_brackets_that_nobody_knows_is_shown_as_it_was_typed() -> None:
    refused = run("[store]")

    assert_one_line(refused, 2)
    assert "'[store]' is not known" in refused.stderr


def test_a_queue_is_told_from_a_key_that_is_not_set(store: Client) -> None:
    push(store.endpoint, "q")
    queue = store.run("get", "q")
    store.run("set", "q", "v")

    assert_one_line(queue, 1)
    assert "queue with 2 elements" in queue.stderr
    assert "queue_pop" in queue.stderr
    assert store.out("get", "q") == "v\n"


def test_cas_that_does_not_fit_shows_what_stands_there(any_store: Client) -> None:
    any_store.run("set", "k", "old")
    other = any_store.run("cas", "k", "wrong", "new")
    already = any_store.run("cas", "k", "wrong", "old")
    missing = any_store.run("cas", "none", "x", "y")

    for result, shown in ((other, "old\n"), (already, "old\n"), (missing, "")):
        assert_one_line(result, 1)
        assert result.stdout == shown
    assert any_store.out("keys") == "k\n"


def test_only_one_of_many_wins_with_the_same_value(store: Client) -> None:
    for number in range(10):
        rivals = [
            subprocess.Popen(
                store.command("cas", f"lock{number}", "", "taken"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(),
            )
            for _ in range(6)
        ]
        for rival in rivals:
            assert rival.communicate(timeout=PATIENCE)[0] == b"taken\n"

        assert [rival.returncode for rival in rivals].count(0) == 1


def test_a_long_key_is_shown_without_its_middle(any_store: Client) -> None:
    key = "begin" + "ä" * 2000 + "end"
    any_store.run("set", "other", "x")
    missing = any_store.run("get", key)
    late = any_store.run("wait", key, "--timeout", "0.5")
    any_store.run("set", key, "no number")
    refused = any_store.run("add", key, "1")

    assert_one_line(missing, 1)
    assert_one_line(late, 4)
    assert refused.returncode != 0
    for result in (missing, late):
        assert "begin" in result.stderr and "end" in result.stderr
        assert "bytes)" in result.stderr
    for result in (missing, late, refused):
        assert len(result.stderr) < 1000
        assert "\\x" not in result.stderr


def test_binary_values_come_back_as_they_went(any_store: Client, tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(BINARY)
    any_store.raw("set", "stdin", "-", given=BINARY)
    any_store.raw("set", "file", f"@{file}")
    any_store.raw("set", "hex", "--hex", BINARY.hex())
    any_store.raw("set", "base64", "--base64", base64.b64encode(BINARY).decode())

    for key in ("stdin", "file", "hex", "base64"):
        assert any_store.raw("get", key, "--raw") == BINARY
        assert any_store.out("get", key, "--hex") == BINARY.hex() + "\n"


def test_a_value_that_is_not_text_is_shown_safely(store: Client) -> None:
    store.run("set", "k", "--hex", "00ff0a1b41")
    document = store.json("get", "k")

    assert store.out("get", "k") == "\\x00\\xff\\x0a\\x1bA\n"
    assert document == {"key": "k", "value": "AP8KG0E=", "encoding": "base64"}


def test_text_is_text_in_json(store: Client) -> None:
    store.run("set", "k", "Grüße\n\"'")

    assert store.json("get", "k") == {"key": "k", "value": "Grüße\n\"'", "encoding": "utf-8"}


def test_values_that_look_like_places_can_be_meant_literally(store: Client) -> None:
    for value in ("-", "@home"):
        store.run("set", "k", "--literal", value)
        assert store.out("get", "k") == f"{value}\n"


def test_json_of_each_verb_is_one_document(store: Client) -> None:
    assert store.json("set", "k", "v") == {"key": "k", "bytes": 1}
    assert store.json("add", "n", "3") == {"key": "n", "value": 3}
    assert store.json("cas", "k", "v", "w")["swapped"] is True
    assert store.json("wait", "k", "n")["keys"] == ["k", "n"]
    assert store.json("del", "k", "n") == {"deleted": 2}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "k", "--hex", "0g"), 2),
        (("set", "k", "--base64", "a"), 2),
        (("set", "k", "@/no/such/file"), 1),
        (("add", "k", "many"), 2),
        (("get",), 2),
        (("get", "a", "b"), 2),
        (("get", "k", "--hex", "--base64"), 2),
        (("get", "k", "--timeout", "soon"), 2),
    ],
)
def test_nonsense_is_one_line(store: Client, arguments: tuple[str, ...], code: int) -> None:
    assert_one_line(store.run(*arguments), code)


def test_add_to_what_is_no_number_fails(store: Client) -> None:
    store.run("set", "k", "text")

    assert_one_line(store.run("add", "k", "1"), 1)


def test_a_wait_that_is_in_vain_ends_with_4(any_store: Client) -> None:
    any_store.run("set", "there", "x")

    assert_one_line(any_store.run("wait", "there", "missing", "--timeout", "0.2"), 4)
    assert_one_line(any_store.run("get", "missing", "--wait", "0.2"), 4)


def test_a_wait_ends_with_the_key(any_store: Client) -> None:
    any_store.run("set", "there", "x")
    with any_store.started("get", "later", "--wait", "30") as waiting:
        any_store.run("set", "later", "now")
        out, _ = waiting.communicate(timeout=PATIENCE)

    assert (waiting.returncode, out) == (0, "now\n")


def test_an_endpoint_that_does_not_answer_is_3(tmp_path: Path) -> None:
    nobody = run("store", "ping", "tcp://127.0.0.1:1", "--timeout", "0.2")
    no_file = run("store", "keys", "-e", f"file://{tmp_path}/none")

    assert_one_line(nobody, 3)
    assert "[PEER_UNREACHABLE]" in nobody.stderr
    assert_one_line(no_file, 3)
    assert not (tmp_path / "none").exists()


def test_no_endpoint_is_2_and_says_what_to_give() -> None:
    result = run("store", "keys")

    assert_one_line(result, 2)
    assert "-e tcp://" in result.stderr
    assert "UNISONO_STORE" in result.stderr


def test_an_endpoint_comes_from_the_environment(store: Client) -> None:
    host, port = store.endpoint.removeprefix("tcp://").split(":")

    for env in (
        {"UNISONO_STORE": store.endpoint},
        {"MASTER_ADDR": host, "MASTER_PORT": port},
    ):
        assert run("store", "ping", **env).returncode == 0
    master = {"MASTER_ADDR": host, "MASTER_PORT": port}
    assert run("store", "ping", "env://", **master).returncode == 0


def test_a_prefix_is_a_store_of_its_own(store: Client) -> None:
    job = Client(store.endpoint + "/job/7")
    job.run("set", "k", "v")
    store.run("set", "k", "w")

    assert job.out("keys") == "k\n"
    assert store.out("keys") == "job/7/k\nk\n"


def test_a_misspelt_scheme_is_2_with_the_right_one() -> None:
    result = run("store", "ping", "tpc://127.0.0.1:29500")

    assert_one_line(result, 2)
    assert "did you mean tcp://?" in result.stderr


def test_standard_input_may_come_late(store: Client) -> None:
    with subprocess.Popen(
        store.command("set", "k", "-"), stdin=subprocess.PIPE, env=environment()
    ) as process:
        process.communicate(b"late", timeout=PATIENCE)

    assert store.out("get", "k") == "late\n"
