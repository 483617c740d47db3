"""Every operation of a group on arrays: what it gives, and into what."""

from __future__ import annotations

import array
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from unisono.testing import local_world, run

np = pytest.importorskip("numpy")

Call = Callable[[unisono.Group], Any]
R = 3  # how many ranks


def mine(world: unisono.Group, count: int = 2) -> Any:
    return np.arange(count) + 10 * world.rank


def each(world: unisono.Group) -> list[Any]:
    """An array for every rank."""
    return [np.array([world.rank, rank]) for rank in range(world.size)]


def listed(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [listed(part) for part in found]
    return found.tolist() if hasattr(found, "tolist") else found


# What each call gives on ranks 0, 1 and 2.
CALLS: dict[str, tuple[Call, list[Any]]] = {
    "reduce": (
        lambda world: world.reduce(mine(world), root=1),
        [[0, 1], [30, 33], [20, 21]],
    ),
    "all_gather": (
        lambda world: world.all_gather(mine(world)),
        [[[0, 1], [10, 11], [20, 21]]] * R,
    ),
    "all_gather into arrays of several sizes": (
        lambda world: world.all_gather(
            mine(world, world.rank + 1), [np.empty(rank + 1, int) for rank in range(R)]
        ),
        [[[0], [10, 11], [20, 21, 22]]] * R,
    ),
    "all_gather_single": (
        lambda world: world.all_gather_single(mine(world)),
        [[0, 1, 10, 11, 20, 21]] * R,
    ),
    "all_gather_single of rows": (
        lambda world: world.all_gather_single(mine(world).reshape(1, 2)),
        [[[0, 1], [10, 11], [20, 21]]] * R,
    ),
    "all_gather_single of single numbers": (
        lambda world: world.all_gather_single(np.array(world.rank)),
        [[0, 1, 2]] * R,
    ),
    "all_gather_single into an array": (
        lambda world: world.all_gather_single(mine(world), np.empty(6, int)),
        [[0, 1, 10, 11, 20, 21]] * R,
    ),
    "all_gather_into_tensor": (
        lambda world: world.all_gather_into_tensor(np.empty(6, int), mine(world)),
        [[0, 1, 10, 11, 20, 21]] * R,
    ),
    "all_gather_v": (
        lambda world: world.all_gather_v(mine(world, world.rank)),
        [[10, 20, 21]] * R,
    ),
    "all_gather_v of rows, into an array": (
        lambda world: world.all_gather_v(
            np.full((world.rank, 2), world.rank), np.empty((3, 2), int), range(R)
        ),
        [[[1, 1], [2, 2], [2, 2]]] * R,
    ),
    "all_gather_v of bytes, later": (
        lambda world: bytes(
            world.all_gather_v(
                b"abc"[: world.rank + 1], output_splits=[1, 2, 3], async_op=True
            ).result()
        ),
        [b"aababc"] * R,
    ),
    "all_gather_single of bytes": (
        lambda world: bytes(world.all_gather_single(bytes([65 + world.rank]))),
        [b"ABC"] * R,
    ),
    "all_gather_single of an array.array": (
        lambda world: world.all_gather_single(array.array("d", [world.rank / 2])),
        [[0.0, 0.5, 1.0]] * R,
    ),
    "gather": (
        lambda world: world.gather(mine(world), root=2),
        [None, None, [[0, 1], [10, 11], [20, 21]]],
    ),
    "scatter": (
        lambda world: world.scatter(each(world) if world.rank == 1 else None, mine(world), root=1),
        [[1, 0], [1, 1], [1, 2]],
    ),
    "reduce_scatter": (
        lambda world: world.reduce_scatter(each(world), op="max"),
        [[2, 0], [2, 1], [2, 2]],
    ),
    "reduce_scatter_single": (
        lambda world: world.reduce_scatter_single(mine(world, 6)),
        [[30, 33], [36, 39], [42, 45]],
    ),
    "reduce_scatter_tensor": (
        lambda world: world.reduce_scatter_tensor(np.empty(2, int), mine(world, 6), "max"),
        [[20, 21], [22, 23], [24, 25]],
    ),
    "reduce_scatter_v": (
        lambda world: world.reduce_scatter_v(mine(world, 3), [2, 0, 1]),
        [[30, 33], [], [36]],
    ),
    "reduce_scatter_v of an array.array, later": (
        lambda world: world.reduce_scatter_v(
            array.array("d", [world.rank, 2.5]), [0, 1, 1], op="max", async_op=True
        ).result(),
        [[], [2.0], [2.5]],
    ),
    "all_to_all": (
        lambda world: world.all_to_all(each(world)),
        [[[0, rank], [1, rank], [2, rank]] for rank in range(R)],
    ),
    "all_to_all_single": (
        lambda world: world.all_to_all_single(mine(world, 3)),
        [[0, 10, 20], [1, 11, 21], [2, 12, 22]],
    ),
    "all_to_all_single with splits": (
        lambda world: world.all_to_all_single(
            mine(world, 3), output_splits=[world.rank] * R, input_splits=[0, 1, 2]
        ),
        [[], [0, 10, 20], [1, 2, 11, 12, 21, 22]],
    ),
    "split": (
        lambda world: [(group := world.split(world.rank % 2)) and (group.rank, group.size)],
        [[[0, 2]], [[0, 1]], [[1, 2]]],
    ),
    "split with a name": (
        lambda world: (group := world.split(7, name="rows")) and group.name,
        ["world/rows/7"] * R,
    ),
    "split without a color": (
        lambda world: world.split(7 if world.rank else None) is None,
        [True, False, False],
    ),
    "new_group": (
        lambda world: (group := world.new_group([0, 2])) and listed(group.all_reduce(mine(world))),
        [[20, 22], None, [20, 22]],
    ),
}


def round_robin(world: unisono.Group) -> tuple[int, Any]:
    """To the next rank, from the one before."""
    received = np.empty(2, int)
    if world.rank == 0:
        world.send(mine(world), dst=1, tag=4)
        source = world.recv(received, src=world.size - 1, tag=4)
    else:
        source = world.recv(received, tag=4)
        world.send(mine(world), dst=(world.rank + 1) % world.size, tag=4)
    return source, received.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_an_operation_gives(name: str) -> None:
    call, expected = CALLS[name]
    with local_world(R) as worlds:
        assert listed(worlds.run(call)) == expected


def test_messages_say_whom_they_come_from() -> None:
    expected = [(2, [20, 21]), (0, [0, 1]), (1, [10, 11])]
    with local_world(R) as worlds:
        assert worlds.run(round_robin) == expected
    assert run(round_robin, nprocs=R) == expected


def around(world: unisono.Group) -> tuple[int, int]:
    """To the next rank and from the one before, at once."""
    received = np.empty(1, int)
    messages = [
        unisono.P2POp(world.irecv, received, (world.rank - 1) % R, tag=3),
        unisono.P2POp(world.isend, mine(world, 1), (world.rank + 1) % R, tag=3),
    ]
    receiving, sending = world.batch_isend_irecv(messages)
    assert sending.result() is None
    assert receiving.result() is received
    return receiving.source_rank(), int(received[0])


def test_messages_can_be_started_together() -> None:
    with local_world(R) as worlds:
        assert worlds.run(around) == [(2, 20), (0, 0), (1, 10)]


def test_messages_of_others_are_refused_before_any_is_started() -> None:
    with local_world(2) as worlds:
        mine, other = worlds
        cases: list[Any] = [
            unisono.P2POp(other.isend, b"a", 1),
            unisono.P2POp(mine.send, b"a", 1),
            (mine.isend, b"a", 1),
        ]
        for wrong in cases:
            with pytest.raises(unisono.UsageError, match=r"DO: give unisono\.P2POp"):
                mine.batch_isend_irecv([unisono.P2POp(mine.isend, b"a", 1), wrong])
        received = bytearray(1)
        mine.isend(b"z", 1)
        other.recv(received)
    assert received == b"z"


def test_a_result_is_of_the_kind_that_was_given() -> None:
    torch = pytest.importorskip("torch")
    with local_world(2) as worlds:
        for given in (np.zeros(2, np.int8), torch.zeros(2, dtype=torch.bfloat16), bytearray(2)):
            for found in worlds.run(methodcaller("all_gather_single", given)):
                assert type(found) is type(given)
                assert getattr(found, "dtype", None) == getattr(given, "dtype", None)
                assert len(found) == 4


def test_what_is_only_read_may_be_read_only() -> None:
    with local_world(2) as worlds:
        found = worlds.run(lambda world: bytes(world.all_gather_single(b"ab")))

    assert found == [b"abab"] * 2


def test_a_result_whose_shape_nobody_knows_is_refused() -> None:
    with local_world(2) as worlds:
        world = worlds[1]
        with pytest.raises(dist.UsageError, match="DO: give an output"):
            world.scatter(None, root=0)
        with pytest.raises(dist.UsageError, match="DO: give outputs"):
            world.all_to_all([np.zeros(1), np.zeros(2)])
        with pytest.raises(dist.UsageError, match="no 2 equal parts"):
            world.reduce_scatter_single(np.zeros(3))
        with pytest.raises(dist.UsageError, match="3 arrays are given for 2 ranks"):
            world.reduce_scatter([np.zeros(1)] * 3)
        with pytest.raises(dist.UsageError, match="DO: give output_splits"):
            world.all_gather_v(np.zeros(1), async_op=True)
        for splits in ([1, 1, 1], [3], [4, -1], [1, 1]):
            with pytest.raises(dist.UsageError, match="of 3 rows"):
                world.reduce_scatter_v(np.zeros(3), splits)
        with pytest.raises(dist.UsageError, match="another memoryview"):
            world.all_gather(memoryview(b"ab"))


def test_an_argument_of_the_wrong_type_is_named_in_one_line() -> None:
    wrong: Any = "1"
    cases: dict[str, Callable[[Any], Any]] = {
        "op must be a str, not int": lambda world: world.all_reduce(np.zeros(1), op=3),
        "op must be a str, not None": lambda world: world.all_reduce(np.zeros(1), op=None),
        "root must be an int, not str": lambda world: world.broadcast(np.zeros(1), root="0"),
        "the other rank must be an int": lambda world: world.send(np.zeros(1), dst=0.5),
        "tag must be an int": lambda world: world.recv(np.zeros(1), src=0, tag=None),
        "input_splits must be an int": lambda world: world.all_to_all_single(
            np.zeros(2), output_splits=[1, 1], input_splits=[1.0, 1.0]
        ),
        "color must be an int": lambda world: world.split("red"),
        "name must be str": lambda world: world.split(0, name=1),
        "a rank must be an int": lambda world: world.new_group(["0"]),
        "size must be an int": lambda _: unisono.init(store=dist.HashStore(), rank=0, size=wrong),
    }
    with local_world(2) as worlds:
        for words, call in cases.items():
            with pytest.raises(TypeError, match=words) as caught:
                call(worlds[1])
            assert "\n" not in str(caught.value)


def test_an_output_that_is_read_only_is_refused() -> None:
    with local_world(2) as worlds, pytest.raises(dist.UsageError, match="read-only"):
        worlds[0].all_gather_single(b"ab", b"abab")


def test_a_monitored_barrier_names_who_is_missing() -> None:
    with local_world(R) as worlds, pytest.raises(dist.DistError) as caught:
        worlds[0].monitored_barrier(timeout=0.2, wait_all_ranks=True)

    assert caught.value.culprits == (1, 2)


def test_a_monitored_barrier_lets_everybody_on() -> None:
    with local_world(R) as worlds:
        worlds.run(lambda world: world.monitored_barrier(timeout=60))


def test_a_subgroup_is_closed_with_its_world() -> None:
    def split(world: unisono.Group) -> unisono.Group | None:
        return world.split(0)

    with local_world(2) as worlds:
        groups = worlds.run(split)

    for group in groups:
        assert group is not None
        with pytest.raises(dist.DistError) as caught:
            group.barrier()
        assert caught.value.reason == "SHUTDOWN"
