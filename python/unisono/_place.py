"""Which rank this process is, of how many: what its launcher has said in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from unisono._refusal import refusal


class Place(NamedTuple):
    rank: int
    size: int
    launcher: str


# Asked in this order. Slurm's are those of a step: a batch script has a SLURM_PROCID too, but is
# one process, however many tasks the job has.
LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def discover(environment: Mapping[str, str]) -> Place | None:
    """The place that the first launcher gives which has said both numbers; None without any."""
    for launcher, rank, size in LAUNCHERS:
        if rank in environment and size in environment:
            return Place(_whole(rank, environment), _whole(size, environment), launcher)
    return None


def _whole(name: str, environment: Mapping[str, str]) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise refusal(f"{name} is {environment[name]!r}, which is not a whole number") from None
