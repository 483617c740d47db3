"""Objects as bytes, and back: data only, so that reading what a peer sent runs none of its code.

An object is one letter for its type, then what belongs to it, lowest byte first:

    N, T, F          None, True, False
    f<8 bytes>       a float
    i<n><n bytes>    a whole number, as two's complement
    s<n><n bytes>    a str, as UTF-8
    b<n><n bytes>    bytes
    l<n>, t<n>       a list, a tuple, followed by n parts
    d<n>             a dict, followed by n times a key and its value

where <n> is 8 bytes.
"""

from __future__ import annotations

import struct

from unisono._refusal import refusal

MOST_DEPTH = 100

_FLOAT = struct.Struct("<d")
_COUNT = struct.Struct("<Q")


def encode(value: object) -> bytes:
    """The bytes of `value`; UsageError for what is not data."""
    out: list[bytes] = []
    _write(value, out, 0)
    return b"".join(out)


def decode(data: bytes) -> object:
    """The object that `data` stands for; UsageError when it stands for none."""
    value, end = _read(data, 0, 0)
    if end != len(data):
        raise _broken(f"{len(data) - end} bytes follow it")
    return value


def _write(value: object, out: list[bytes], depth: int) -> None:
    kind = type(value)  # exactly: what a derived class adds would be lost
    if value is None:
        out.append(b"N")
    elif kind is bool:
        out.append(b"T" if value else b"F")
    elif isinstance(value, int) and kind is int:
        _write_bytes(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), out)
    elif isinstance(value, float) and kind is float:
        out.append(b"f" + _FLOAT.pack(value))
    elif isinstance(value, str) and kind is str:
        _write_bytes(b"s", value.encode("utf-8", "surrogatepass"), out)
    elif isinstance(value, bytes) and kind is bytes:
        _write_bytes(b"b", value, out)
    else:
        _write_parts(value, out, depth)


def _write_bytes(letter: bytes, data: bytes, out: list[bytes]) -> None:
    out += [letter, _COUNT.pack(len(data)), data]


def _write_parts(value: object, out: list[bytes], depth: int) -> None:
    if depth == MOST_DEPTH:
        raise refusal(f"the object is more than {MOST_DEPTH} levels deep, or contains itself")
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        out += [b"l" if isinstance(value, list) else b"t", _COUNT.pack(len(value))]
        for part in value:
            _write(part, out, depth + 1)
    elif isinstance(value, dict) and type(value) is dict:
        out += [b"d", _COUNT.pack(len(value))]
        for key, part in value.items():
            _write(key, out, depth + 1)
            _write(part, out, depth + 1)
    else:
        raise refusal(
            f"an object of type {type(value).__name__} is not data",
            "send None, bool, int, float, str, bytes, or lists, tuples and dicts of them; "
            "unsafe_pickle=True sends anything, to ranks that may run what they get",
        )


def _read(data: bytes, at: int, depth: int) -> tuple[object, int]:
    """The object at `at`, and where the next one begins."""
    letter = data[at : at + 1]
    at += 1
    if letter in _CONSTANTS:
        return _CONSTANTS[letter], at
    if letter == b"f":
        return _FLOAT.unpack(_take(data, at, 8))[0], at + 8
    if letter not in _COUNTED:
        raise _broken(f"{letter!r} is no type")
    count = _COUNT.unpack(_take(data, at, 8))[0]
    at += 8
    if letter in _COUNTED[:3]:
        return _plain(letter, _take(data, at, count)), at + count
    if depth == MOST_DEPTH or count > len(data) - at:  # each part has a byte at least
        raise _broken(f"it has {count} parts at level {depth}")
    return _read_parts(data, at, letter, count, depth + 1)


def _read_parts(data: bytes, at: int, letter: bytes, count: int, depth: int) -> tuple[object, int]:
    parts = []
    for _ in range(2 * count if letter == b"d" else count):
        part, at = _read(data, at, depth)
        parts.append(part)
    if letter == b"l":
        return parts, at
    if letter == b"t":
        return tuple(parts), at
    try:
        return dict(zip(parts[::2], parts[1::2], strict=True)), at
    except TypeError:
        raise _broken("a list or dict is a key") from None


def _plain(letter: bytes, data: bytes) -> object:
    if letter == b"i":
        return int.from_bytes(data, "little", signed=True)
    return data if letter == b"b" else _text(data)


def _take(data: bytes, at: int, count: int) -> bytes:
    if count > len(data) - at:
        raise _broken("it is cut short")
    return data[at : at + count]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _broken("a str is not UTF-8") from None


def _broken(why: str) -> Exception:
    return refusal(f"what came is no object: {why}", "run the same version of unisono everywhere")


_COUNTED = (b"i", b"b", b"s", b"l", b"t", b"d")
_CONSTANTS: dict[bytes, object] = {b"N": None, b"T": True, b"F": False}
