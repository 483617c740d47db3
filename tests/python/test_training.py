"""examples/train_numpy.py and zero_numpy.py: trainings that many ranks share."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.program import NEEDS_PROGRAM, ROOT, run_for
from tests.python.conftest import PATIENCE
from unisono.testing import local_world

pytest.importorskip("numpy")

EXAMPLE = ROOT / "examples" / "train_numpy.py"
SHARDED = ROOT / "examples" / "zero_numpy.py"


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return loaded(EXAMPLE)


def losses(example: ModuleType, size: int) -> list[float]:
    """Those of all epochs, as every rank knows them."""
    with local_world(size) as worlds:
        by_rank = worlds.run(lambda world: example.train(world, 8))
    assert all(each == by_rank[0] for each in by_rank)
    return list(by_rank[0])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_number_of_ranks_changes_nothing_but_rounding(example: ModuleType, size: int) -> None:
    assert losses(example, size) == pytest.approx(losses(example, 1), rel=1e-9)


@NEEDS_PROGRAM
def test_four_processes_learn_and_draw_how(tmp_path: Path) -> None:
    plot = tmp_path / "loss.svg"
    command = ("run", "-n", "4", "--prefix", "none", str(EXAMPLE), "--plot", str(plot))

    done = run_for(PATIENCE, *command, PYTHON_EXEC=sys.executable)

    assert (done.returncode, done.stderr) == (0, "")
    bars = [
        float(loss) for loss in re.findall(r"^\[[# ]{30}\] epoch .*loss (.*)$", done.stdout, re.M)
    ]
    assert len(bars) == 100
    assert bars[-1] < bars[0] / 50
    assert done.stdout.splitlines()[-1].endswith(f"see {plot}")
    (line,) = ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == 100


def test_alone_it_learns_too(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    alone = losses(example, 1)

    assert alone[-1] < alone[0]
    assert capsys.readouterr().out.count("epoch") == 8


def test_shares_of_an_optimizer_make_the_steps_of_a_whole_one() -> None:
    sharded = loaded(SHARDED)

    def outcome(size: int) -> list[Any]:
        with local_world(size) as worlds:
            return worlds.run(lambda world: sharded.train(world, 40))

    ((_, alone, whole),) = outcome(1)
    for size in (2, 3):
        ranks = outcome(size)
        for _, weights, state in ranks:
            assert (weights == ranks[0][1]).all()
            assert weights == pytest.approx(alone, rel=1e-6, abs=1e-9)
            assert state == pytest.approx(whole / size, rel=0.01)


@NEEDS_PROGRAM
def test_a_shared_optimizer_learns() -> None:
    command = ("run", "-n", "2", "--prefix", "none", str(SHARDED))

    done = run_for(PATIENCE, *command, PYTHON_EXEC=sys.executable)

    assert (done.returncode, done.stderr) == (0, "")
    found = re.findall(r"^rank \d: error (.*), keeps (\d+) of (\d+) bytes", done.stdout, re.M)
    assert len(found) == 2
    for error, kept, whole in found:
        assert float(error) < 0.01
        assert int(kept) * 2 == int(whole)
