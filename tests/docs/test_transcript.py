"""The first five minutes, as the project promises them: every line typed and its answer compared.

Only the benchmark is told to be short.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM
from tests.docs.test_pages import PATIENCE, environment, shell

pytest.importorskip("numpy")
pytest.importorskip("unisono")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} has not been built")

HELLO = """\
import numpy as np, unisono
with unisono.init() as world:
    x = np.full(4, world.rank, np.float32)
    world.all_reduce(x)
    print(f"rank {world.rank}/{world.size}: {x}")
"""
SESSION = f"""\
$ cat hello.py
{HELLO}\
$ python hello.py                        # a world of one
rank 0/1: [0. 0. 0. 0.]
$ unisono run -n 4 hello.py
[0] rank 0/4: [6. 6. 6. 6.]
[1] rank 1/4: [6. 6. 6. 6.]
[2] rank 2/4: [6. 6. 6. 6.]
[3] rank 3/4: [6. 6. 6. 6.]
"""
BENCH = "unisono bench all_reduce --procs 2 --compare gloo,mpi"
SHORT = "-b 8 -e 16 -n 20 --rounds 1"


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_first_program(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(HELLO)

    shell(SESSION, tmp_path, environment())


def test_the_doctor(tmp_path: Path) -> None:
    done = typed("unisono doctor", tmp_path)
    words = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}

    assert done.returncode in (0, 1), done.stderr  # 1: it has found something
    assert "ok" in words


def test_the_comparison(tmp_path: Path) -> None:
    done = typed(f"{BENCH} {SHORT}", tmp_path)

    assert done.returncode == 0, done.stderr
    for column in ("size", "count", "p50", "p99", "algbw", "busbw", "wrong"):
        assert column in done.stdout
    for peer in ("gloo", "openmpi", "mpich"):  # measured, or named as missing
        assert peer in done.stdout + done.stderr
