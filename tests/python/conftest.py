"""The Python package, beside the torch.distributed whose names it has."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# No program of a test takes longer, unless it hangs.
PATIENCE = 60.0

KINDS = ("tcp", "hash", "file", "prefix-tcp", "prefix-hash", "prefix-file")


# Without the package the test files cannot even be imported.
PRESENT = importlib.util.find_spec("unisono") is not None
collect_ignore_glob = [] if PRESENT else ["test_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not PRESENT:
        terminalreporter.write_line(
            "tests/python: left out, the package is not installed: run scripts/test.sh"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without PyTorch, one skipped test speaks for all that need it."""
    needing = [item for item in items if on_torch(item)]
    if not needing or importlib.util.find_spec("torch") is not None:
        return
    why = f"PyTorch is not installed, and {len(needing)} tests need it: run scripts/setup.sh"
    needing[0].add_marker(pytest.mark.skip(reason=why))
    items[:] = [item for item in items if item not in needing[1:]]
    config.hook.pytest_deselected(items=needing[1:])


def on_torch(item: pytest.Item) -> bool:
    """Whether it is a test of this folder that uses torch.distributed."""
    return isinstance(item, pytest.Function) and (
        getattr(item, "callspec", None) is not None and item.callspec.params.get("dist") == "torch"
    )


@pytest.fixture(params=["unisono", "torch"])
def dist(request: pytest.FixtureRequest) -> Any:
    """unisono.distributed, then torch.distributed: what a test says must hold for both."""
    return importlib.import_module(f"{request.param}.distributed")


@pytest.fixture
def make(dist: Any, tmp_path: Path) -> Callable[[str], Any]:
    """Makes an empty store of a kind."""

    def plain(kind: str) -> Any:
        if kind == "tcp":
            return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        if kind == "hash":
            return dist.HashStore()
        return dist.FileStore(str(tmp_path / "store"))

    def make_one(kind: str) -> Any:
        prefix, _, inner = kind.rpartition("-")
        return dist.PrefixStore("p", plain(inner)) if prefix else plain(kind)

    return make_one


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, make: Callable[[str], Any]) -> Any:
    return make(request.param)


def happens(condition: Callable[[], bool]) -> bool:
    """Whether it does within the patience of tests."""
    moment = threading.Event()
    return any(condition() or moment.wait(0.01) for _ in range(int(PATIENCE * 100)))


class Ended(subprocess.CompletedProcess[str]):
    """How a program ended, shown in full when a test fails."""

    def __repr__(self) -> str:
        return f"exit {self.returncode}\n--- out\n{self.stdout}\n--- err\n{self.stderr}"


def run_python(program: str, *arguments: str, timeout: float = PATIENCE) -> Ended:
    """Runs a program in an interpreter of its own; one that hangs fails the test."""
    ended = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            textwrap.dedent(program),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ended(ended.args, ended.returncode, ended.stdout, ended.stderr)
