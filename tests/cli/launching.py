"""`unisono run` for tests: small programs as ranks, and who is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.program import PATIENCE, PROGRAM, environment, is_gone, wait_until

# What a launcher around the tests might have set.
LAUNCHERS = ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "TMPDIR")


def launcher_environment(**more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment().items()
        if name not in LAUNCHERS and not name.startswith(("PET_", "TORCH"))
    }
    return {**kept, **more}


def launch(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end."""
    return subprocess.run(
        [str(PROGRAM), "run", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=launcher_environment(**env),
        stdin=subprocess.DEVNULL,
        check=False,
    )


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


@contextmanager
def launched(*arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A job that goes on by itself; what is left of it is killed with its launcher."""
    with subprocess.Popen(
        [str(PROGRAM), "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=launcher_environment(**env),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def pids_in(folder: Path, count: int) -> list[int]:
    """The processes that have left a file with their number as its name."""
    wait_until(f"{count} processes", lambda: len(list(folder.iterdir())) == count)
    return [int(path.name) for path in folder.iterdir()]


def all_gone(pids: list[int]) -> None:
    try:
        wait_until("the end of the ranks", lambda: all(is_gone(pid) for pid in pids))
    except AssertionError:
        for pid in pids:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        raise
