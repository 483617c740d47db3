"""Worlds of several processes for the tests of the PyTorch backend."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
# No world takes longer, unless it hangs.
PATIENCE = 400.0


@dataclass
class Ended:
    """How a world ended: by rank, what the scenarios returned (or a traceback) and the exit."""

    results: list[Any]
    codes: list[int]
    output: str

    def of(self, scenario: str) -> list[Any]:
        """What the ranks returned, of a world that ended well."""
        if set(self.codes) != {0}:  # tensors take long to write
            shown = "\n".join(str(result) for result in self.results)
            raise AssertionError(f"exits {self.codes}\n{shown}\n{self.output}")
        return [result[scenario] for result in self.results]


def run_world(scenarios: str, size: int, backend: str = "unisono", hosts: int = 1) -> Ended:
    """Runs functions that driver.py finds, one after the other, as so many ranks of so many hosts,
    which are pretended."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *(sys.executable, "-X", "faulthandler", "-m", "tests.torch.driver"),
                *(scenarios, backend, folder, str(size), str(hosts)),
            ],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"{scenarios} hangs on {backend}:\n{output}") from None
        places = [Path(folder) / f"rank{rank}" for rank in range(size)]
        results = [
            torch.load(place, weights_only=False) if place.exists() else None for place in places
        ]
        codes = Path(folder) / "codes"
        assert codes.exists(), output
        return Ended(results, pickle.loads(codes.read_bytes()), output)
