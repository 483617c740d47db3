"""unisono.init() under the launchers of others, whose programs are used where they are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import unisono
import unisono.distributed as dist
from tests.python.conftest import PATIENCE, run_python

PROGRAM = """
import array, sys, unisono
for _ in range(2):  # the second world is made at once, when others are still in the first
    with unisono.init(timeout=60) as world:
        values = array.array("d", [world.rank + 1.0])
        world.all_reduce(values)
        sys.stdout.write(f"{world.rank} {world.size} {values[0]} {world.desc}\\n")
"""

COMMANDS = {
    "Open MPI": ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3"),
    "PMI": ("mpirun.mpich", "-n", "3"),
}


def run(*command: str) -> list[str]:
    """The lines that a command says, in order of the alphabet."""
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert ended.returncode == 0, ended
    return sorted(ended.stdout.splitlines())


@pytest.mark.parametrize("launcher", COMMANDS)
def test_ranks_of_mpirun_meet_without_being_told_where(launcher: str) -> None:
    command = COMMANDS[launcher]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: run scripts/setup.sh peers")

    said = run(*command, sys.executable, "-c", PROGRAM)

    facts = [f"{rank} 3 6.0 rank and size by {launcher}" for rank in range(3)]
    assert said == sorted(facts * 2)


@pytest.mark.parametrize("launcher", COMMANDS)
def test_the_next_program_of_the_same_job_meets_anew(launcher: str) -> None:
    command = COMMANDS[launcher]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: run scripts/setup.sh peers")
    twice = '"$0" -c "$1" && "$0" -c "$1"'

    said = run(*command, "sh", "-c", twice, sys.executable, PROGRAM)

    facts = [f"{rank} 3 6.0 rank and size by {launcher}" for rank in range(3)]
    assert said == sorted(facts * 4)


def test_a_missing_rank_is_named() -> None:
    program = """
        import os, unisono
        os.environ |= {
            "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": f"a test of {os.getpid()}",
        }
        try:
            unisono.init(timeout=0.2)
        except unisono.distributed.DistStoreError as error:
            print(error.reason, error)
    """
    ended = run_python(program)

    assert "TIMEOUT unisono: rank 1 has not come" in ended.stdout, ended


def test_a_launcher_that_said_half_is_not_a_world_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")

    with pytest.raises(dist.DistError, match="RANK is set, but WORLD_SIZE is not"):
        unisono.init()


def test_ranks_of_several_hosts_need_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
    monkeypatch.setenv("PMIX_NAMESPACE", "a job")

    with pytest.raises(dist.DistError, match="MASTER_ADDR"):
        unisono.init()
