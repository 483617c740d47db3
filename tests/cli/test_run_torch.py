"""A script sees the same under `unisono run` as under torchrun."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launching import launch
from tests.cli.program import NEEDS_PROGRAM, PROGRAM, environment, run_for

pytest.importorskip("torch")
pytestmark = NEEDS_PROGRAM

TORCH_PATIENCE = 120.0
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
HELLO = PROGRAM.parent / "example_hello"
SHOW = """
import json, os, sys
with open(f"{sys.argv[1]}/{os.environ['RANK']}", "w") as file:
    json.dump({"environment": dict(os.environ), "argv": sys.argv[2:]}, file)
"""
# Chosen anew for every job, or by each launcher in its own way.
DIFFERENT = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS")


def seen(folder: Path) -> dict[str, dict[str, object]]:
    ranks: dict[str, dict[str, object]] = {}
    for path in sorted(folder.iterdir()):
        ranks[path.name] = json.loads(path.read_text())
        path.unlink()
    return ranks


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@pytest.mark.parametrize(
    "options",
    [
        ("--nproc-per-node", "2"),
        ("--nproc_per_node=2", "--max_restarts", "3", "--role", "trainer"),
        ("--standalone", "--nproc-per-node=1"),
        ("--nproc-per-node=2", "--master-addr", "127.0.0.1", "--master-port", "PORT"),
        ("--rdzv-id", "job7", "--nnodes", "1:1", "--master-port", "PORT"),
        ("--signals-to-handle", "SIGTERM,SIGUSR1", "--nproc-per-node=2"),
    ],
    ids=" ".join,
)
def test_the_environment_is_the_same(tmp_path: Path, options: tuple[str, ...]) -> None:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    (tmp_path / "seen").mkdir()
    words = [word.replace("PORT", free_port()) for word in options]
    words += [str(script), str(tmp_path / "seen"), "--nproc-per-node", "x"]

    subprocess.run(
        [*TORCHRUN, *words],
        env=environment(),
        capture_output=True,
        timeout=TORCH_PATIENCE,
        check=True,
    )
    torch = seen(tmp_path / "seen")
    done = launch(*words, PYTHON_EXEC=sys.executable)
    assert done.returncode == 0, done.stderr
    ours = seen(tmp_path / "seen")

    assert ours.keys() == torch.keys()
    for rank, facts in torch.items():
        expected, got = facts["environment"], ours[rank]["environment"]
        assert isinstance(expected, dict) and isinstance(got, dict)
        for name in ("UNISONO_STORE", "UNISONO_AUTH_SECRET_FILE", "PYTHON_EXEC"):
            got.pop(name)
        assert expected.keys() == got.keys()
        for name in DIFFERENT:
            expected.pop(name, None)
            got.pop(name, None)
        assert got == expected
        assert ours[rank]["argv"] == facts["argv"]


def test_ranks_of_torch_meet(tmp_path: Path) -> None:
    script = tmp_path / "sum.py"
    script.write_text("""
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(x)
print("sum", x.item())
dist.destroy_process_group()
""")
    done = subprocess.run(
        [str(PROGRAM), "run", "-n", "2", str(script)],
        env=environment(PYTHON_EXEC=sys.executable),
        capture_output=True,
        text=True,
        timeout=TORCH_PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] sum 3", "[1] sum 3"]


@pytest.mark.skipif(not HELLO.exists(), reason=f"{HELLO} has not been built")
def test_ranks_of_ours_meet_under_torchrun() -> None:
    done = subprocess.run(
        [*TORCHRUN, "--no-python", "--nproc-per-node=2", str(HELLO)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TORCH_PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [f"rank {rank} of 2: the ranks add up to 1" for rank in range(2)]
    assert sorted(done.stdout.splitlines()) == lines


def test_a_traceback_that_torch_records_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("""
import os, sys
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    sys.stderr = open(os.devnull, "w")
    raise ValueError("this is why")

main()
""")
    done = run_for(TORCH_PATIENCE, "run", str(script), PYTHON_EXEC=sys.executable)

    assert done.returncode == 5
    told = done.stderr[done.stderr.index("unisono: rank 0") :]
    assert 'raise ValueError("this is why")' in told
    assert "ValueError: this is why" in told
