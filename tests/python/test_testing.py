"""unisono.testing: worlds for the tests of users."""

from __future__ import annotations

import os

import pytest

import unisono
import unisono.distributed as dist
from unisono.testing import local_world, run


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
