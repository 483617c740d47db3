"""dump and load: a file that comes back whole, or not at all."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    ROOT,
    Client,
    assert_one_line,
    before,
    check_of,
    losing,
    push,
    swap_of,
)

pytestmark = NEEDS_PROGRAM


@pytest.fixture
def dump(store: Client, tmp_path: Path) -> Path:
    """The dump of a store with text, bytes and a number."""
    store.run("set", "text", "Grüße")
    store.run("set", "bytes", "--hex", "00ff")
    store.run("add", "number", "7")
    file = tmp_path / "dump.jsonl"
    assert store.out("dump", str(file)) == "dumped 3 keys\n"
    return file


def test_every_kind_of_store_can_be_dumped_and_loaded(any_store: Client, tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    any_store.run("set", "text", "Grüße")
    any_store.run("set", "bytes", "--hex", "00ff")
    any_store.run("dump", str(file))
    any_store.run("del", "text", "bytes")

    assert any_store.out("load", str(file)) == "loaded 2 keys\n"
    assert any_store.out("get", "text") == "Grüße\n"
    assert any_store.out("get", "bytes", "--hex") == "00ff\n"


def test_the_format_is_as_documented(dump: Path) -> None:
    *body, last = dump.read_bytes().splitlines(keepends=True)
    lines = [json.loads(line) for line in body]
    end = json.loads(last)

    assert lines[0] == {"schema": "unisono-store-dump/1"}
    assert {"key": "bytes", "value": "AP8=", "encoding": "base64"} in lines
    assert end == {"end": True, "count": 3, "crc32": f"{zlib.crc32(b''.join(body)):08x}"}


def test_the_dump_in_the_manual_can_be_loaded(store: Client) -> None:
    manual = (ROOT / "docs" / "command_line.md").read_text()
    start = manual.index('{"schema":"unisono-store-dump/1"}')
    store.raw("load", "-", given=manual[start : manual.index("```", start)].encode())

    assert store.out("get", "blob", "--hex") == "00ff0a\n"


def test_keys_that_are_no_text_come_back(store: Client) -> None:
    key = os.fsdecode(b"k\xff")
    store.run("set", key, "v")
    content = store.raw("dump", "-")
    store.run("del", key)
    store.raw("load", "-", given=content)

    assert b'"key_encoding":"base64"' in content
    assert store.out("get", key) == "v\n"
    assert store.json("keys")["keys"] == [{"base64": "a/8="}]


def test_many_keys_come_back(store: Client, tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    body = b'{"schema":"unisono-store-dump/1"}\n' + b"".join(
        b'{"key":"k%d","value":"v%d"}\n' % (i, i) for i in range(3000)
    )
    end = {"end": True, "count": 3000, "crc32": f"{zlib.crc32(body):08x}"}
    file.write_bytes(body + json.dumps(end).encode() + b"\n")

    assert store.out("load", str(file)) == "loaded 3000 keys\n"
    assert store.raw("dump", "-").count(b"\n") == 3002
    assert store.out("get", "k2999") == "v2999\n"


def test_every_key_keeps_its_value_when_an_answer_is_lost(store: Client) -> None:
    """Of a value that is empty it is asked whether it is there, behind the values of others."""
    for key, value in (("a", "1"), ("b", ""), ("c", "3")):
        store.run("set", key, value)

    with losing(store.endpoint, check_of("b")) as endpoint:
        lines = Client(endpoint).raw("dump", "-").splitlines()[1:-1]

    assert {line["key"]: line["value"] for line in map(json.loads, lines)} == {
        "a": "1",
        "b": "",
        "c": "3",
    }


@pytest.mark.parametrize("at", range(0, 180, 9))
def test_a_damaged_dump_changes_nothing(store: Client, dump: Path, at: int) -> None:
    content = bytearray(dump.read_bytes())
    content[at % len(content)] ^= 1
    dump.write_bytes(content)
    store.run("del", "text", "bytes", "number")

    result = store.run("load", str(dump))

    assert_one_line(result, 1)
    assert "nothing was loaded" in result.stderr
    assert store.out("keys") == ""


@pytest.mark.parametrize("left", [0, 1, 40, 100, -1])
def test_a_truncated_dump_changes_nothing(store: Client, dump: Path, left: int) -> None:
    dump.write_bytes(dump.read_bytes()[:left])
    store.run("del", "text", "bytes", "number")

    assert_one_line(store.run("load", str(dump)), 1)
    assert store.out("keys") == ""


@pytest.mark.parametrize("content", [b"\n", b"hello\n", b"[]\n[]\n", b'{"schema":7}\n{}\n'])
def test_what_is_no_dump_is_refused(store: Client, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(content)

    assert_one_line(store.run("load", str(file)), 1)


@pytest.mark.parametrize(
    ("count", "says"),
    [
        ("", "it does not say how many entries it should have"),
        ('"count":2,', "it has 1 entries and should have 2"),
        ('"count":-1,', "it has 1 entries and should have -1"),
        ('"count":"1",', "a line holds something else than it should"),
    ],
)
def test_an_end_without_the_right_count_is_refused(
    store: Client, tmp_path: Path, count: str, says: str
) -> None:
    file = tmp_path / "dump.jsonl"
    body = b'{"schema":"unisono-store-dump/1"}\n{"key":"k","value":"v"}\n'
    end = f'{{"end":true,{count}"crc32":"{zlib.crc32(body):08x}"}}\n'
    file.write_bytes(body + end.encode())

    result = store.run("load", str(file))

    assert_one_line(result, 1)
    assert f"{says}; nothing was loaded" in result.stderr
    assert store.out("keys") == ""


def dump_of(*entries: bytes) -> bytes:
    """A dump of these lines, whole as far as its end can tell."""
    body = b'{"schema":"unisono-store-dump/1"}\n' + b"".join(line + b"\n" for line in entries)
    end = f'{{"end":true,"count":{len(entries)},"crc32":"{zlib.crc32(body):08x}"}}\n'
    return body + end.encode()


def test_a_dump_that_has_a_key_twice_is_refused(store: Client, tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(dump_of(b'{"key":"k","value":"1"}', b'{"key":"k","value":"2"}'))

    result = store.run("load", str(file))

    assert_one_line(result, 1)
    assert "line 3 has a key that an earlier one has; nothing was loaded" in result.stderr
    assert store.out("keys") == ""


def test_a_load_that_fails_says_how_much_was_loaded(store: Client, tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    large = b'{"key":"z","value":"' + b"x" * 9_000_000 + b'"}'
    file.write_bytes(dump_of(b'{"key":"a","value":"1"}', large))

    result = store.run("load", str(file))

    assert_one_line(result, 1)
    assert "1 of 2 keys were loaded before" in result.stderr
    assert store.out("keys") == "a\n"


def test_keys_that_are_set_are_overwritten_only_by_force(store: Client, dump: Path) -> None:
    store.run("del", "number", "bytes")
    store.run("set", "text", "mine")

    refused = store.run("load", str(dump))

    assert_one_line(refused, 1)
    assert "'text'" in refused.stderr
    assert "--force" in refused.stderr
    assert store.out("keys") == "text\n"
    assert store.out("load", str(dump), "--force") == "loaded 3 keys\n"
    assert store.out("get", "text") == "Grüße\n"


def test_a_dump_goes_through_a_pipe(store: Client) -> None:
    store.run("set", "k", "v")
    content = store.raw("dump", "-")
    store.run("del", "k")
    store.raw("load", "-", given=content)

    assert store.out("get", "k") == "v\n"


def test_a_dump_that_fails_leaves_no_file(store: Client, tmp_path: Path) -> None:
    assert_one_line(store.run("dump", str(tmp_path / "no" / "dump")), 1)
    assert_one_line(store.run("dump", "/dev/null"), 1)
    assert_one_line(
        Client("tcp://127.0.0.1:1").run("dump", str(tmp_path / "d"), "--timeout", "0"), 3
    )

    assert list(tmp_path.iterdir()) == []


def test_some_keys_can_be_chosen(store: Client) -> None:
    store.run("set", "a/1", "x")
    store.run("set", "b/1", "x")

    assert b"b/1" not in store.raw("dump", "-", "--match", "a/*")


def test_a_key_that_is_set_while_loading_is_left_alone(store: Client, tmp_path: Path) -> None:
    """The other client comes when the look at what is set already is over."""
    file = tmp_path / "dump.jsonl"
    for key in ("a", "b", "c"):
        store.run("set", key, "dump")
    store.run("dump", str(file))
    store.run("del", "a", "b", "c")

    with before(store.endpoint, swap_of("b"), lambda: store.run("set", "c", "mine")) as endpoint:
        loading = Client(endpoint).run("load", str(file))

    assert_one_line(loading, 1)
    assert "1 of 3 keys were set by somebody else meanwhile and left alone: 'c'" in loading.stderr
    assert loading.stdout == "loaded 2 keys\n"
    assert store.out("get", "c") == "mine\n"
    assert store.out("get", "b") == "dump\n"


@pytest.mark.parametrize("count", [1, 2])
def test_queues_that_are_left_out_are_told(store: Client, tmp_path: Path, count: int) -> None:
    store.run("set", "k", "v")
    push(store.endpoint, *(f"q{i}" for i in range(count)))
    file = tmp_path / "dump.jsonl"

    short = store.run("dump", str(file), "--json")
    meant = store.run("dump", str(file), "--skip-queues")

    assert_one_line(short, 1)
    assert f"{count} queue" in short.stderr
    assert json.loads(short.stdout) == {
        "dumped": 1,
        "file": str(file),
        "queues_left_out": count,
    }
    assert (meant.returncode, meant.stderr) == (0, "")
    assert store.run("dump", "-").returncode == 1
    assert store.json("stats")["queues"] == count
    assert store.json("stats")["queued"] == 2 * count
    assert file.read_text().count("\n") == 3
