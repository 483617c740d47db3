"""Objects between ranks: data only, unless pickles are asked for."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from unisono._objects import MOST_DEPTH, decode, encode
from unisono.testing import local_world

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    127,
    128,
    -129,
    10**5000,
    -(2**64),
    0.0,
    -1.5e300,
    math.inf,
    "",
    "Grüße\x00",
    "\ud800",
    b"",
    bytes(range(256)),
    [],
    (),
    {},
    [1, [2, (3, {"a": [None]})]],
    {1: "a", "b": 2.5, (1, "t"): b"x", None: True},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_data_comes_back_as_it_was(value: Any) -> None:
    found = decode(encode(value))

    assert found == value
    assert type(found) is type(value)


def test_what_is_no_number_comes_back_too() -> None:
    found = decode(encode(math.nan))

    assert isinstance(found, float)
    assert math.isnan(found)


def test_what_is_not_data_is_refused() -> None:
    class Text(str):
        __slots__ = ()

    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), {1}, Text("x"), Fraction(1), [print], circle, bytearray(1)):
        with pytest.raises(dist.UsageError):
            encode(value)


def test_what_is_no_object_is_refused_whatever_it_is() -> None:
    """No other exception, and no memory for what a length only claims."""
    whole = encode([VALUES[:22], {"k": ("v", 1.5, b"b")}])
    for end in range(len(whole)):
        with pytest.raises(dist.UsageError):
            decode(whole[:end])
    dice = random.Random(7)
    for _ in range(3000):
        broken = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        with suppress(dist.UsageError):
            decode(bytes(broken))
    for data in (b"d" + b"\1" + bytes(7) + b"l" + bytes(8) + b"N", whole + b"N", b"?"):
        with pytest.raises(dist.UsageError):
            decode(data)
    with pytest.raises(dist.UsageError, match="level"):
        decode((b"l\1" + bytes(7)) * (MOST_DEPTH + 2) + b"N")


def test_objects_go_where_arrays_go() -> None:
    def exchange(world: unisono.Group) -> list[Any]:
        rank, mine = world.rank, {"rank": world.rank, "long": "x" * world.rank * 1000}
        return [
            world.broadcast_object(mine, root=1)["rank"],
            [found["rank"] for found in world.all_gather_object(mine)],
            (gathered := world.gather_object(mine, root=2)) and [len(f["long"]) for f in gathered],
            world.scatter_object([("for", 0), ["for", 1], b"2"] if rank == 0 else None),
        ]

    with local_world(3) as worlds:
        found = worlds.run(exchange)

    assert found == [
        [1, [0, 1, 2], None, ("for", 0)],
        [1, [0, 1, 2], None, ["for", 1]],
        [1, [0, 1, 2], [0, 1000, 2000], b"2"],
    ]


def test_all_ranks_learn_that_one_cannot_send() -> None:
    def attempt(world: unisono.Group) -> list[str]:
        bad = object() if world.rank == 1 else 1
        names = []
        for call in (
            lambda: world.broadcast_object(bad, root=1),
            lambda: world.all_gather_object(bad),
            lambda: world.gather_object(bad),
            lambda: world.scatter_object([bad] * 2, root=1),
            lambda: world.scatter_object([1], root=1),
        ):
            with pytest.raises(dist.DistError) as caught:
                call()
            names.append(type(caught.value).__name__)
            if world.rank == 0:
                assert caught.value.culprits == (1,)
        assert world.all_gather_object(2) == [2, 2]  # all are in step
        return names

    with local_world(2) as worlds:
        assert worlds.run(attempt) == [["MismatchError"] * 5, ["UsageError"] * 5]


def test_pickles_are_read_by_who_asks_for_them() -> None:
    def trusting(world: unisono.Group) -> Any:
        return world.broadcast_object(Fraction(1, 3), unsafe_pickle=True)

    def careful(world: unisono.Group) -> str:
        try:
            world.broadcast_object(1, unsafe_pickle=world.rank == 0)
        except dist.UsageError as error:
            return error.hint
        return ""

    with local_world(2) as worlds:
        assert worlds.run(trusting) == [Fraction(1, 3)] * 2
        assert ["unsafe_pickle" in hint for hint in worlds.run(careful)] == [False, True]
