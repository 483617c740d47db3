"""`unisono run` for tests: small programs as ranks, and who is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from tests.cli.program import is_gone, run, started, wait_until


def launch(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end."""
    return run("run", *arguments, **env)


def launched(*arguments: str, **env: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A job that goes on by itself; what is left of it is killed with its launcher."""
    return started((), "run", *arguments, **env)


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


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
