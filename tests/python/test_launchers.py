"""unisono.init() under the launchers of others, whose programs are used where they are there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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

UNISONO = Path(sys.prefix) / "bin" / "unisono"
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


FAILING = """
import signal, sys, unisono
with unisono.init(timeout=60) as world:
    world.barrier()
    sys.stderr = open("/dev/null", "w")  # only the file tells
    if world.rank == 1:
        raise LookupError("this is why")
    signal.pause()  # until it is told to end
"""


def launched(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
        env=kept | environment,
    )


def test_a_traceback_is_shown_without_a_decorator(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)

    ended = launched(
        str(UNISONO), "run", "-n", "2", "--json", str(script), PYTHON_EXEC=sys.executable
    )
    end = json.loads(ended.stdout.splitlines()[-1])

    assert ended.returncode == 5, ended
    assert end["failed"]["rank"] == 1
    assert end["failed"]["error"]["message"] == "LookupError: this is why"
    assert 'raise LookupError("this is why")' in end["failed"]["error"]["traceback"]


def test_who_fails_because_of_another_is_not_shown_in_its_place(tmp_path: Path) -> None:
    """Rank 0 ends first: rank 1 takes its time after its exception."""
    script = tmp_path / "failing.py"
    script.write_text("""
import atexit, signal, unisono
with unisono.init(timeout=60) as world:
    world.barrier()
    if world.rank == 1:
        atexit.register(signal.pause)  # until it is told to end
        raise LookupError("this is why")
    world.barrier()
""")
    ended = launched(
        str(UNISONO), "run", "-n", "2", "--json", str(script), PYTHON_EXEC=sys.executable
    )
    failed = json.loads(ended.stdout.splitlines()[-1])["failed"]

    assert ended.returncode == 5, ended
    assert (failed["rank"], failed["exit_code"]) == (1, 1)
    assert failed["error"]["message"] == "LookupError: this is why"


def test_torchrun_shows_it_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "failing.py"
    script.write_text(FAILING)

    ended = launched(
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(script)
    )

    assert ended.returncode == 1, ended
    assert 'raise LookupError("this is why")' in ended.stderr
    assert "LookupError: this is why" in ended.stderr


def test_last_words_are_the_last_and_of_failures_only(tmp_path: Path) -> None:
    program = """
        import os, sys, unisono
        path = os.environ["TORCHELASTIC_ERROR_FILE"] = sys.argv[1]
        heard = []
        sys.excepthook = lambda kind, *_: heard.append(kind.__name__)
        for _ in range(2):
            unisono.init().close()
        sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert not os.path.exists(path)
        try:
            with unisono.init():
                raise ValueError("one that is caught")
        except ValueError:
            pass
        sys.excepthook(ValueError, ValueError("the last"), None)
        print(open(path).read(), heard)
    """
    ended = run_python(program, str(tmp_path / "error.json"))

    assert "the last" in ended.stdout, ended
    assert "one that is caught" not in ended.stdout
    assert "['KeyboardInterrupt', 'ValueError']" in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["error.json"]


def test_a_file_that_cannot_be_written_hides_nothing() -> None:
    program = """
        import os, unisono
        os.environ["TORCHELASTIC_ERROR_FILE"] = "/nowhere/error.json"
        unisono.init().close()
        raise ValueError("seen")
    """
    ended = run_python(program)

    assert ended.returncode == 1
    assert ended.stderr.endswith("ValueError: seen\n"), ended


def test_ranks_meet_at_the_store_that_the_environment_names(tmp_path: Path) -> None:
    script = "import unisono; w = unisono.init(timeout=60); w.barrier(); print(w.rank, w.size)"
    place = {
        "UNISONO_STORE": f"file://{tmp_path}/store",
        "UNISONO_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",  # there is nobody
        "MASTER_PORT": "1",
    }
    other = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, **place, "UNISONO_RANK": "1"}
    )
    ended = launched(sys.executable, "-c", script, **place, UNISONO_RANK="0")

    assert ended.stdout == "0 2\n", ended
    assert other.wait(timeout=PATIENCE) == 0


def test_a_world_of_one_needs_no_store() -> None:
    script = "import unisono; print(unisono.init().size)"
    ended = launched(sys.executable, "-c", script, UNISONO_STORE="tcp://127.0.0.1:1")

    assert ended.stdout == "1\n", ended
