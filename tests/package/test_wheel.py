"""The wheel that install_package builds, in an environment in which there is nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
WHEELS = sorted((ROOT / "build" / "wheel").glob("unisono-*.whl"))
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(
    not WHEELS, reason="no wheel: source scripts/lib.sh; install_package"
)

SUM = """
from array import array

import unisono

with unisono.init() as world:
    values = array("d", [1.0, world.rank])
    world.all_reduce(values)
    print(world.size, values.tolist())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the wheel, far from the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    venv.create(folder / "venv", with_pip=False)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python")),
            *("install", "--no-index", "--no-deps", "--quiet", str(WHEELS[-1])),
        ],
        timeout=PATIENCE,
        check=True,
    )
    (folder / "sum.py").write_text(SUM)
    return folder


def said(place: Path, *command: str) -> str:
    """What a command of that environment prints, with none of the variables of this one."""
    done = subprocess.run(
        [str(place / "venv" / "bin" / command[0]), *command[1:]],
        cwd=place,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_starts_its_program(place: Path) -> None:
    document = json.loads(said(place, "python", "-m", "unisono", "info", "--json"))

    assert document["version"] == VERSION
    assert said(place, "unisono", "--version") == f"unisono {VERSION}\n"


def test_two_ranks_add(place: Path) -> None:
    lines = said(place, "unisono", "run", "-n", "2", "sum.py").splitlines()

    assert sorted(lines) == ["[0] 2 [2.0, 1.0]", "[1] 2 [2.0, 1.0]"]


def test_it_comes_from_the_environment_and_brings_what_it_needs(place: Path) -> None:
    where = said(place, "python", "-c", "import unisono; print(unisono.__file__)")

    assert where.startswith(str(place / "venv"))
    assert not list((place / "venv").rglob("numpy"))
