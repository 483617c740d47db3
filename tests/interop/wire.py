"""The TCPStore protocol as bytes: for raw clients, and to read what a proxy has recorded."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from tests.interop.driver import PATIENCE

MAGIC = 0x3C85F7CE


class Query(IntEnum):
    """The requests of PyTorch's protocol."""

    VALIDATE = 0
    SET = 1
    COMPARE_SET = 2
    GET = 3
    ADD = 4
    CHECK = 5
    WAIT = 6
    GETNUMKEYS = 7
    DELETE_KEY = 8
    APPEND = 9
    MULTI_GET = 10
    MULTI_SET = 11
    CANCEL_WAIT = 12
    PING = 13
    QUEUE_PUSH = 14
    QUEUE_POP = 15
    QUEUE_LEN = 16
    LIST_KEYS = 17
    BARRIER = 18


# The parts after the query byte. blobs: u64 count, then that many blobs; pairs: twice as many.
_LAYOUT: dict[Query, tuple[str, ...]] = {
    Query.VALIDATE: ("u32",),
    Query.SET: ("blob", "blob"),
    Query.COMPARE_SET: ("blob", "blob", "blob"),
    Query.GET: ("blob",),
    Query.ADD: ("blob", "i64"),
    Query.CHECK: ("blobs",),
    Query.WAIT: ("blobs",),
    Query.GETNUMKEYS: (),
    Query.DELETE_KEY: ("blob",),
    Query.APPEND: ("blob", "blob"),
    Query.MULTI_GET: ("blobs",),
    Query.MULTI_SET: ("pairs",),
    Query.CANCEL_WAIT: (),
    Query.PING: ("u32",),
    Query.QUEUE_PUSH: ("blob", "blob"),
    Query.QUEUE_POP: ("blob",),
    Query.QUEUE_LEN: ("blob",),
    Query.LIST_KEYS: (),
    Query.BARRIER: ("blob", "i64"),
}

Part = int | bytes | list[bytes]


def blob(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def request(query: Query, *parts: Part) -> bytes:
    """The bytes of a request; the keys are given as they are sent, with their "/"."""
    out = bytes([query])
    for kind, part in zip(_LAYOUT[query], parts, strict=True):
        if isinstance(part, int):
            out += struct.pack("<I" if kind == "u32" else "<q", part)
        elif isinstance(part, bytes):
            out += blob(part)
        else:
            count = len(part) // 2 if kind == "pairs" else len(part)
            out += struct.pack("<Q", count) + b"".join(map(blob, part))
    return out


@dataclass(frozen=True)
class Request:
    """A request read back. `private` marks the forms that only our server understands."""

    query: Query
    parts: tuple[Part, ...]
    private: bool = False


class _Reader:
    def __init__(self, stream: bytes) -> None:
        self.stream = stream
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.stream):
            raise EOFError
        self.at += size
        return self.stream[self.at - size : self.at]

    def number(self, code: str) -> int:
        value: int = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return value

    def blob(self) -> bytes:
        return self.take(self.number("<Q"))

    def part(self, kind: str) -> Part:
        if kind == "u32":
            return self.number("<I")
        if kind == "i64":
            return self.number("<q")
        if kind == "blob":
            return self.blob()
        count = self.number("<Q") * (2 if kind == "pairs" else 1)
        return [self.blob() for _ in range(count)]


def decode_requests(stream: bytes) -> list[Request]:
    """All complete requests at the front of what a client has sent.

    Raises ValueError for a byte that begins no request.
    """
    reader = _Reader(stream)
    requests = []
    while reader.at < len(stream):
        try:
            first = reader.number("<B")
            query = Query(first & 0x7F)
            parts = tuple(reader.part(kind) for kind in _LAYOUT[query])
        except EOFError:
            break
        requests.append(Request(query, parts, private=first >= 0x80))
    return requests


class RawClient:
    """A connection to a store server that sends what it is told, byte for byte."""

    def __init__(self, port: int, hello: bool = True) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hello:
            self.send(request(Query.VALIDATE, MAGIC))
            self.fence()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, query: Query, *parts: Part, size: int) -> bytes:
        """Sends a request and returns the next `size` bytes."""
        self.send(request(query, *parts))
        return self.receive(size)

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, f"the server closed after {len(data)} of {size} bytes: {data.hex()}"
            data += more
        return data

    def fence(self) -> None:
        """Returns when the server has read all that any client sent before this call.

        Its loop may answer one PING in the middle of a round; the second is of a later round.
        """
        for nonce in (1, 2):
            assert self.ask(Query.PING, nonce, size=4) == struct.pack("<I", nonce)

    def silent(self) -> bool:
        """Whether nothing has been sent to this client that it has not read."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
            return False
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(PATIENCE)

    def closed_by_server(self) -> bool:
        """Waits for the next bytes; true when there are none because the server closed."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
