"""unisono.testing: worlds for the tests of users."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

import unisono
import unisono.distributed as dist
from unisono.testing import Killed, delay, kill, local_world, mismatch, run


def add_up(world: unisono.Group) -> tuple[int, int]:
    values = bytearray([world.rank + 1])
    world.all_reduce(values)
    return values[0], os.getpid()


def fail_on_one(world: unisono.Group) -> int:
    if world.rank == 1:
        raise LookupError("enough")
    world.barrier()
    return world.rank


def die_on_one(world: unisono.Group) -> None:
    if world.rank == 1:
        os._exit(3)
    world.barrier()


def test_ranks_are_threads() -> None:
    with local_world(4) as worlds:
        assert [world.rank for world in worlds] == [0, 1, 2, 3]
        assert worlds.run(add_up) == [(10, os.getpid())] * 4


def test_ranks_are_processes() -> None:
    sums, pids = zip(*run(add_up, nprocs=3), strict=True)

    assert sums == (6, 6, 6)
    assert len({*pids, os.getpid()}) == 4


def test_what_the_first_rank_raises_is_raised() -> None:
    with pytest.raises(LookupError, match="enough"), local_world(2) as worlds:
        worlds.run(fail_on_one)
    with pytest.raises(LookupError, match="enough"):
        run(fail_on_one, nprocs=2)


def test_a_process_that_dies_is_noticed() -> None:
    with pytest.raises(dist.PeerDeadError) as caught:
        run(die_on_one, nprocs=2)
    assert caught.value.culprits == (1,)


def three_barriers(world: unisono.Group) -> int:
    for _ in range(3):
        world.barrier()
    return world.rank


def hurried(world: unisono.Group) -> None:
    world.barrier()
    world.barrier(timeout=0.2)


def work_on_bytes(world: unisono.Group) -> int:
    values = bytearray([1])
    for _ in range(3):
        world.all_reduce(values)
    return values[0]


def test_a_rank_that_is_a_thread_can_be_killed() -> None:
    with pytest.raises(dist.DistBackendError) as caught, local_world(3, fault=kill(1, 2)) as worlds:
        worlds.run(three_barriers)
    assert caught.value.culprits == (1,)


def test_a_rank_that_is_a_process_can_be_killed() -> None:
    with pytest.raises(dist.PeerDeadError) as caught:
        run(three_barriers, nprocs=3, fault=kill(1, call=2))
    assert caught.value.culprits == (1,)


def test_that_a_rank_was_killed_is_said_if_nobody_else_noticed() -> None:
    def alone(world: unisono.Group) -> None:
        if world.rank == 0:
            world.barrier()

    with pytest.raises(Killed, match="rank 0 was killed"), local_world(2, fault=kill(0)) as worlds:
        worlds.run(alone)


@pytest.mark.parametrize("call", [three_barriers, work_on_bytes])
def test_a_rank_can_call_something_else(call: Callable[[unisono.Group], int]) -> None:
    with (
        pytest.raises(dist.MismatchError),
        local_world(2, fault=mismatch(0, call=3)) as worlds,
    ):
        worlds.run(call)


def test_a_rank_can_come_late() -> None:
    with local_world(2, fault=[delay(0, 0.2), delay(1, 0.3, call=2)]) as worlds:
        begin = time.monotonic()
        assert worlds.run(three_barriers) == [0, 1]
        assert time.monotonic() - begin >= 0.5

    with (
        pytest.raises(dist.DistTimeoutError),
        local_world(2, fault=delay(1, 3.0, call=2)) as worlds,
    ):
        worlds.run(hurried)


def test_a_fault_of_nobody_is_refused() -> None:
    for wrong in (kill(2), kill(-1), delay(0, 1, call=0)):
        with pytest.raises(dist.UsageError, match="for a fault"), local_world(2, fault=wrong):
            pass
