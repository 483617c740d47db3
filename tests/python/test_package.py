"""What `pip install .` puts into an environment."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import unisono
import unisono._core
from tests.python.conftest import PATIENCE, run_python

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(unisono.__file__).parent
PROGRAM = Path(sys.prefix) / "bin" / "unisono"
VERSION = (ROOT / "VERSION").read_text().strip()


def output_of(*command: str | Path, **environment: str) -> str:
    ended = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env={"PATH": os.environ["PATH"], **environment},
    )
    return ended.stdout


def test_the_version_is_that_of_the_tree() -> None:
    assert unisono.__version__ == VERSION


def test_importing_alone_does_not_load_the_extension() -> None:
    program = """
        import sys, unisono
        assert "unisono._core" not in sys.modules
        print(unisono.__version__)
    """
    assert run_python(program).stdout.strip() == VERSION


def test_variables_of_the_program_are_no_typos_here() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import unisono.distributed as d; d.HashStore().set('k', 'v')"],
        env={"PATH": os.environ["PATH"], "UNISONO_STORE": "tcp://127.0.0.1:29500"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ended.stderr == ""


def import_times() -> tuple[float, float]:
    """Milliseconds of work until unisono, and unisono.distributed too, are there: medians of a few
    runs. What others take of a busy machine is not counted."""
    program = """
        import os, time
        begin = time.process_time()
        import unisono
        middle = time.process_time()
        assert len(os.listdir("/proc/self/task")) == 1
        import unisono.distributed
        end = time.process_time()
        assert len(os.listdir("/proc/self/task")) == 1
        print((middle - begin) * 1000, (end - begin) * 1000)
    """
    first, both = [], []
    for _ in range(5):
        ended = run_python(program)
        assert ended.returncode == 0, ended
        times = ended.stdout.split()
        first.append(float(times[0]))
        both.append(float(times[1]))
    return statistics.median(first), statistics.median(both)


def test_importing_starts_no_thread_and_is_quick() -> None:
    """A busy machine may spoil some runs: one good series of several is enough."""
    for _ in range(6):
        first, both = import_times()
        print(f"import unisono: {first:.1f} ms, unisono.distributed: {both:.1f} ms")
        if both < 300:
            break
    assert first <= both < 300


def test_importing_brings_in_neither_torch_nor_numpy() -> None:
    ended = run_python(
        "import sys, unisono.distributed; print({'torch', 'numpy', 'asyncio'} & set(sys.modules))"
    )

    assert ended.stdout == "set()\n", ended


def test_distributed_is_there_without_an_import_of_its_own() -> None:
    ended = run_python("import unisono; print(unisono.distributed.HashStore().num_keys())")

    assert ended.stdout == "0\n", ended
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unisono.nothing  # noqa: B018


def test_every_public_name_is_there() -> None:
    program = """
        import unisono, unisono.distributed as dist
        for name in unisono.__all__:
            found = getattr(unisono, name)
            assert not name.endswith("Error") or found is getattr(dist, name), name
        assert unisono.local_world is unisono.testing.local_world
        assert issubclass(unisono.PeerDeadError, unisono.DistError)
        assert sorted(set(unisono.__all__) - set(dir(unisono))) == []
    """
    ended = run_python(program)

    assert ended.returncode == 0, ended


def test_the_program_is_in_the_environments_bin() -> None:
    assert output_of(PROGRAM, "--version") == f"unisono {VERSION}\n"
    assert PROGRAM.read_bytes().startswith(b"\x7fELF")


def test_python_m_runs_the_program() -> None:
    assert output_of(sys.executable, "-m", "unisono", "--version") == f"unisono {VERSION}\n"


def test_python_m_runs_it_from_any_folder(tmp_path: Path) -> None:
    """As after `pip install --target`: package and program in one folder, found by no rpath."""
    shutil.copytree(PACKAGE, tmp_path / "unisono")
    (tmp_path / "bin").mkdir()
    shutil.copy(PROGRAM, tmp_path / "bin")
    where = "import unisono; print(unisono.__file__)"
    environment = {"PYTHONPATH": str(tmp_path)}

    assert str(tmp_path) in output_of(sys.executable, "-c", where, **environment)
    said = output_of(sys.executable, "-m", "unisono", "--version", **environment)
    assert said == f"unisono {VERSION}\n"


def test_the_libraries_that_it_needs_come_along() -> None:
    for file in (Path(unisono._core.__file__ or ""), PROGRAM):
        for line in output_of("ldd", file).splitlines():
            name, _, place = line.strip().partition(" => ")
            if any(part in name for part in ("fmt", "spdlog", "uv.so")):
                assert Path(place.split()[0]).resolve().is_relative_to(PACKAGE.resolve()), line


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "_core.pyi").is_file()


def test_the_committed_stub_is_the_generated_one() -> None:
    generated = ROOT / "build" / "python" / "python" / "_core.pyi"
    if not generated.is_file():
        pytest.skip("the package was not built in build/python")
    committed = ROOT / "python" / "unisono" / "_core.pyi"

    assert committed.read_text() == generated.read_text(), f"cp {generated} {committed}"


def test_every_public_name_has_words_for_help() -> None:
    import unisono.distributed as dist

    for name in dist.__all__:
        assert getattr(dist, name).__doc__, name
    for name in dir(dist.Store):
        if not name.startswith("_"):
            assert getattr(dist.Store, name).__doc__, name


def test_the_example_lets_two_processes_meet() -> None:
    import unisono.distributed as dist

    port = dist.TCPStore("127.0.0.1", 0, is_master=True).port
    command = [sys.executable, str(ROOT / "examples" / "store_python.py")]
    ranks = [
        subprocess.Popen([*command, str(rank), str(port)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]

    assert said == ["rank 0 met Bela\n", "rank 1 met Anna\n"]
    assert [rank.returncode for rank in ranks] == [0, 0]
