"""The bytes in docs/wire: a server of ours is sent them, a file is made of them."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.program import NEEDS_PROGRAM, PATIENCE, ROOT, run, serving
from tests.docs.test_pages import FENCE

pytestmark = NEEDS_PROGRAM

LINE = re.compile(r"^(.*?)(?:(?<=\s)|^)([<>] )?((?:[0-9a-f]{2}(?: |$))+)")
Exchange = list[tuple[str, bytes]]  # `>` or `<`, and what goes that way


def shown(page: str, first: str) -> Iterator[tuple[str, str, bytes]]:
    """Of the block that begins with a word: what a line is called, its direction, its bytes."""
    (text,) = [
        text
        for _, text in FENCE.findall((ROOT / "docs" / "wire" / page).read_text())
        if text.startswith(first)
    ]
    for line in text.splitlines():
        found = LINE.match(line)
        assert found, line
        yield found[1].strip(), (found[2] or "").strip(), bytes.fromhex(found[3])


def exchanges(first: str) -> dict[str, Exchange]:
    """What is said in a block, by the name of the request that begins it."""
    found: dict[str, Exchange] = {}
    name = ""
    for label, direction, data in shown("tcp_store.md", first):
        if direction == ">" and label and not label.startswith("…"):
            name = label
        said = found.setdefault(name, [])
        if direction:
            said.append((direction, data))
        else:
            said[-1] = (said[-1][0], said[-1][1] + data)  # the line before goes on
    return found


@contextmanager
def served() -> Iterator[str]:
    with serving("--port", "0", "--json") as (_, line):
        yield json.loads(line)["endpoint"]


class Peer:
    """A connection to a server, which says exactly what it is told."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("tcp://").partition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def expect(self, data: bytes) -> None:
        assert self.socket.recv(len(data), socket.MSG_WAITALL) == data

    def play(self, said: Exchange) -> None:
        for direction, data in said:
            if direction == ">":
                self.send(data)
            else:
                self.expect(data)


@contextmanager
def greeted(endpoint: str) -> Iterator[Peer]:
    peer = Peer(endpoint)
    with peer.socket:
        for said in exchanges("> 00").values():
            peer.play(said)
        yield peer


def test_stock_requests_are_answered_as_shown() -> None:
    said = exchanges("SET")
    pop = said.pop("QUEUE_POP q")
    barrier = said.pop("BARRIER b, 2 workers")
    with served() as endpoint, greeted(endpoint) as one, greeted(endpoint) as other:
        for each in said.values():
            one.play(each)
        assert run("store", "get", "b", "-e", endpoint).stdout == "22\n"
        (_, request), (_, element), (_, empty) = pop
        one.send(b"\x0e" + request[1:] + element[8:])  # QUEUE_PUSH
        one.play([(">", request), ("<", element), (">", request), ("<", empty)])
        other.send(barrier[0][1])
        one.play(barrier)
        other.expect(barrier[1][1])


def test_answered_requests_are_answered_as_shown() -> None:
    said = exchanges("GET foo (missing)")
    (_, get), (_, value), (_, cancel), (_, canceled) = said["GET foo (missing)"]
    with served() as endpoint, greeted(endpoint) as peer:
        peer.play([(">", get), (">", cancel), ("<", canceled), (">", get)])
        run("store", "set", "foo", "bar", "-e", endpoint)
        peer.expect(value)
        peer.play(said['ADD foo +1 on "bar"'])


def test_the_records_of_a_file_mean_what_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"".join(data for _, _, data in shown("file_store.md", "refcount/")))

    assert run("store", "keys", "-e", f"file://{path}").stdout == "n\n"
    assert run("store", "get", "n", "-e", f"file://{path}").stdout == "5\n"
