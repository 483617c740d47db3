"""The measurements beside Gloo run, compare results, and report what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import ROOT
from tests.torch.world import PATIENCE

torch = pytest.importorskip("torch")


def measure(program: str, *arguments: str) -> Any:
    command = [sys.executable, str(ROOT / "bench" / program), "--json", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_operation_is_measured_beside_gloo(tmp_path: Path) -> None:
    picture = tmp_path / "times.svg"
    arguments = ("--ranks", "2", "--sizes", "4,5000", "--rounds", "1", "--plot", str(picture))
    rows = measure("torch_collectives.py", *arguments)["rows"]

    assert len({row["op"] for row in rows}) == 10
    assert all(row["gloo_us"] > 0 and row["unisono_us"] > 0 for row in rows)
    xml.etree.ElementTree.fromstring(picture.read_text())


def test_an_unknown_operation_is_refused_with_the_names_of_all() -> None:
    command = [sys.executable, str(ROOT / "bench" / "torch_collectives.py"), "--ops", "all_reduze"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 2
    assert "there is no operation all_reduze; there are all_reduce, " in ran.stderr


def test_a_training_is_measured_with_ddp_and_fsdp() -> None:
    rows = measure("torch_training.py", "--rounds", "1", "--steps", "1")["rows"]
    assert [row["parallel"] for row in rows] == ["ddp", "fsdp"]


def test_a_call_is_measured_beside_one_that_does_nothing() -> None:
    found = measure("torch_call.py", "--rounds", "1", "--calls", "50")
    assert found["added_us"] == pytest.approx(found["unisono_us"] - found["fake_us"])


def test_a_step_is_measured_beside_ddp() -> None:
    arguments = ("--sizes", "3000,500,70000", "--compute", "0.2", "--cap", "0.1")
    found = measure("ddp_step.py", "--rounds", "2", "--steps", "2", *arguments)

    assert found["plan"]["sizes"] == [3000, 500, 70000]
    assert found["environment"]["cores"] > 0
    assert found["bound_ms"] >= max(found["alone_ms"], found["communication_ms"])
    assert all(found[name] > 0 for name in ("exposed_ratio", "overhead_ratio"))


def test_layers_without_times_are_refused() -> None:
    command = [sys.executable, str(ROOT / "bench" / "ddp_step.py"), "--compute", "1,2"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 2
    assert "12 layers have sizes, but 2 have times" in ran.stderr
