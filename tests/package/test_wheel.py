"""The wheel that install_package builds, in an environment in which there is nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
WHEELS = sorted((ROOT / "build" / "wheel").glob("unisono-*.whl"))
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(
    not WHEELS, reason="no wheel: source scripts/lib.sh; install_package"
)

BASE = "import sys; print(sys._base_executable)"  # of which the environment was made

SUM = """
from array import array

import unisono

with unisono.init() as world:
    values = array("d", [1.0, world.rank])
    world.all_reduce(values)
    print(world.size, values.tolist())
"""


def interpreters() -> list[Path]:
    """The one that runs the tests, and others of the same version, such as Debian's."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [*os.environ["PATH"].split(os.pathsep), "/usr/local/bin", "/usr/bin"]
    found = [Path(sys.executable), *(Path(folder) / name for folder in folders)]
    real = dict.fromkeys(path.resolve() for path in found if path.exists())
    return [path for path in real if can_make_environments(path)]


def can_make_environments(python: Path) -> bool:
    """Not so a minimal one of Debian's, nor a script that chooses among several."""
    asked = [str(python), "-c", "import sys, venv; print(sys.executable)"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stdout.strip() == str(python)


@pytest.fixture(scope="module", params=interpreters(), ids=str)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the wheel, far from the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    making = [str(request.param), "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(making, timeout=PATIENCE, check=True)
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
    assert Path(said(place, "python", "-c", BASE).strip()).resolve() in interpreters()
    assert not list((place / "venv").rglob("numpy"))


def test_it_brings_the_licences_of_what_it_brings(place: Path) -> None:
    (libraries,) = (place / "venv").rglob("unisono/lib")
    bundled = {path.name for path in libraries.iterdir() if path.is_file()}
    texts = {path.stem: path.read_text() for path in (libraries / "licenses").iterdir()}

    assert any(name.startswith("libspdlog") for name in bundled)
    assert texts.keys() == bundled | {"cli11", "nanobind", "nlohmann-json"}
    for name, text in texts.items():
        assert "copyright" in text.lower(), name
    (own,) = (place / "venv").rglob("unisono-*.dist-info/licenses/LICENSE")
    assert own.read_text() == (ROOT / "LICENSE").read_text()
