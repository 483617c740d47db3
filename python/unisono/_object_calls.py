"""Objects between the ranks of a group. The methods of Group end here.

The ranks first learn how long everything is, or that a rank has nothing to send because its object
was refused: then all of them raise, and the group can still be used. Every object has one byte in
front that says how it was written.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from unisono._errors import MismatchError
from unisono._objects import decode, encode
from unisono._refusal import refusal

if TYPE_CHECKING:
    from unisono._group import Group

Timeout = timedelta | float | None

DATA = b"D"
PICKLE = b"P"
REFUSED = -1  # as a length


class Exchange:
    """One call: how its objects are written, and how long it may wait for each step."""

    def __init__(self, group: Group, unsafe_pickle: bool, timeout: Timeout) -> None:
        self.group = group
        self.unsafe_pickle = unsafe_pickle
        self.timeout = timeout

    def broadcast(self, value: object, root: int) -> object:
        group = self.group
        values = [value] if group.rank == root else []
        texts, error = self._written(values)
        length = array("q", [len(texts[0]) if texts else REFUSED])
        group.broadcast(length, root, timeout=self.timeout)
        self._check(list(length), [root], error)
        data = bytearray(texts[0]) if texts else bytearray(length[0])
        group.broadcast(data, root, timeout=self.timeout)
        return value if group.rank == root else self._read(bytes(data), root)

    def all_gather(self, value: object) -> list[object]:
        group = self.group
        texts, lengths = self._lengths(value)
        outputs = [bytearray(length) for length in lengths]
        group.all_gather(texts[0], outputs, timeout=self.timeout)
        return [self._read(bytes(output), rank) for rank, output in enumerate(outputs)]

    def gather(self, value: object, root: int) -> list[object] | None:
        group = self.group
        texts, lengths = self._lengths(value)
        none = [0] * group.size
        mine = lengths[group.rank]
        joined = group.all_to_all_single(
            texts[0],
            bytearray(sum(lengths) if group.rank == root else 0),
            output_splits=lengths if group.rank == root else none,
            input_splits=[mine if rank == root else 0 for rank in range(group.size)],
            timeout=self.timeout,
        )
        if group.rank != root:
            return None
        parts = _cut(joined, lengths)
        return [self._read(part, rank) for rank, part in enumerate(parts)]

    def scatter(self, values: Sequence[object] | None, root: int) -> object:
        group = self.group
        texts: list[bytes] = []
        error: Exception | None = None
        if group.rank == root:
            if values is None or len(values) != group.size:
                error = refusal(f"scatter_object needs a list of {group.size} objects on its root")
            else:
                texts, error = self._written(values)
        lengths = array("q", [len(text) for text in texts] or [REFUSED] * group.size)
        group.broadcast(lengths, root, timeout=self.timeout)
        self._check(list(lengths[:1]), [root], error)
        mine = lengths[group.rank]
        output = group.all_to_all_single(
            b"".join(texts),
            bytearray(mine),
            output_splits=[mine if rank == root else 0 for rank in range(group.size)],
            input_splits=list(lengths) if group.rank == root else [0] * group.size,
            timeout=self.timeout,
        )
        return self._read(bytes(output), root)

    def _lengths(self, value: object) -> tuple[list[bytes], list[int]]:
        """This rank's object as bytes, and how many bytes every rank has."""
        texts, error = self._written([value])
        mine = array("q", [len(texts[0]) if texts else REFUSED])
        lengths = list(self.group.all_gather_single(mine, timeout=self.timeout))
        self._check(lengths, list(range(self.group.size)), error)
        return texts, lengths

    def _written(self, values: Sequence[object]) -> tuple[list[bytes], Exception | None]:
        """The bytes of all values, or why there are none."""
        try:
            if not self.unsafe_pickle:
                return [DATA + encode(value) for value in values], None
            import pickle

            return [PICKLE + pickle.dumps(value) for value in values], None
        except Exception as error:  # raised when the others know
            return [], error

    def _read(self, data: bytes, source: int) -> object:
        if data[:1] == DATA:
            return decode(data[1:])
        if not self.unsafe_pickle:
            raise refusal(
                f"rank {source} has sent a pickle, which may run anything where it is read",
                "pass unsafe_pickle=True on every rank that trusts it, or on none",
            )
        import pickle

        return pickle.loads(data[1:])  # asked for

    def _check(self, lengths: list[int], ranks: list[int], own: Exception | None) -> None:
        """Raises on every rank when one of them, `ranks` by place, has nothing to send."""
        if own is not None:
            raise own
        refused = tuple(rank for rank, length in zip(ranks, lengths, strict=True) if length < 0)
        if refused:
            error = MismatchError(
                f"unisono: the objects of ranks {list(refused)} cannot be sent. "
                "DO: see what those ranks raised. [MISMATCH]"
            )
            error.reason = "MISMATCH"
            error.culprits = refused
            raise error


def _cut(data: bytearray, lengths: Sequence[int]) -> list[bytes]:
    parts, at = [], 0
    for length in lengths:
        parts.append(bytes(data[at : at + length]))
        at += length
    return parts
