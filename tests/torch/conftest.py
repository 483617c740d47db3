"""The tests of the PyTorch backend: left out where that has not been built."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def is_built() -> bool:
    """Whether the installed package has the backend."""
    found = importlib.util.find_spec("unisono")
    return bool(
        found
        and found.origin
        and importlib.util.find_spec("torch")
        and (Path(found.origin).parent / "_torch.version").exists()
    )


BUILT = is_built()
collect_ignore_glob = [] if BUILT else ["test_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not BUILT:
        terminalreporter.write_line(
            "tests/torch: left out, the backend for PyTorch is not installed: run scripts/test.sh"
        )
