"""Programs that end while operations are under way: quietly, whatever their ranks still do."""

from __future__ import annotations

import pytest

from tests.torch.test_failures import run_python

torch = pytest.importorskip("torch")

# Worlds of two ranks, which are forks of one process and end as programs do, without destroying.
WORLDS = """
import os, sys, tempfile, torch, torch.distributed as dist

def rank_of(world, rank):
    store = dist.FileStore(world, 2)
    dist.init_process_group("unisono", store=store, rank=rank, world_size=2)
    dist.barrier()
    def after(future):
        return sum(range(1000))
    {body}
    sys.exit(0)

codes = []
for round in range({rounds}):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(2):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                rank_of(folder + "/store", rank)
        codes += [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
print(set(codes))
"""


def ends_quietly(body: str, rounds: int) -> None:
    ended = run_python(WORLDS.format(body=body, rounds=rounds))
    assert (ended.returncode, ended.stdout) == (0, "{0}\n"), ended
    for word in ("terminate", "Fatal", "Segmentation", "Traceback"):
        assert word not in ended.stderr, ended.stderr


def test_operations_that_all_ranks_began() -> None:
    ends_quietly(
        "works = [dist.all_reduce(torch.ones(1 << 14), async_op=True) for _ in range(20)]\n"
        "    for work in works: work.get_future().then(after)",
        rounds=4,
    )


def test_an_operation_that_the_other_rank_never_calls() -> None:
    ends_quietly(
        "kept = dist.all_reduce(torch.ones(4), async_op=True) if rank == 0 else None\n"
        "    if kept: kept.get_future().then(after)",
        rounds=3,
    )


def test_a_message_that_never_comes() -> None:
    ends_quietly(
        "kept = dist.irecv(torch.ones(4), 1) if rank == 0 else None\n"
        "    if kept: kept.get_future().then(after)",
        rounds=3,
    )


def test_a_program_may_destroy_its_world_as_its_last_act() -> None:
    ends_quietly("import atexit; atexit.register(dist.destroy_process_group)", rounds=2)


def test_handlers_that_were_there_before_the_world_may_destroy_it_too() -> None:
    program = (
        "import atexit, torch, torch.distributed as dist\n"
        "atexit.register(lambda: (dist.destroy_process_group(), print('destroyed')))\n"
        "dist.init_process_group('unisono', store=dist.HashStore(), rank=0, world_size=1)\n"
        "dist.all_reduce(torch.ones(3), async_op=True)"
    )
    ended = run_python(program)
    assert (ended.returncode, ended.stdout) == (0, "destroyed\n"), ended
