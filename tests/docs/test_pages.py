"""The pages for newcomers: every block on them is run, and what it prints is compared.

A fence with a name behind its language (```python hello.py) is a file. One of the language
`console` is what happens in a shell in the folder of those files: after `$ ` a command, below it
what it prints, where `…` stands for anything. Ranks print in any order, so lines are sorted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, ROOT

PATIENCE = 120.0
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} has not been built")


def environment(prefix: Path | None = None) -> dict[str, str]:
    """That of somebody who has installed everything."""
    path = f"{PROGRAM.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    if prefix is not None:
        (packages,) = prefix.rglob("unisono.pc")
        env["PKG_CONFIG_PATH"] = str(packages.parent)
        env["CMAKE_PREFIX_PATH"] = str(prefix)
        env["LD_LIBRARY_PATH"] = str(packages.parent.parent)
    return env


def matches(expected: str, printed: str) -> bool:
    """Whether every line is there, in any order."""

    def pattern(line: str) -> str:
        return ".*".join(re.escape(part) for part in line.split("…"))

    wanted = sorted(pattern(line) for line in expected.splitlines())
    lines = printed.splitlines()
    left = list(wanted)
    for line in lines:
        fits = next((each for each in left if re.fullmatch(each, line)), None)
        if fits is None:
            return False
        left.remove(fits)
    return not left


def shell(session: str, folder: Path, env: dict[str, str]) -> None:
    """Runs the commands of a console, one after the other."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert matches(expected, done.stdout), f"$ {command}\n{done.stdout}\nbut not\n{expected}"


def run_page(page: Path, folder: Path, env: dict[str, str]) -> None:
    blocks = FENCE.findall(page.read_text())
    assert blocks
    for info, text in blocks:
        language, _, name = info.partition(" ")
        if name:
            (folder / name).write_text(text)
        else:
            assert language == "console", f"{page.name}: nobody runs this block:\n{text}"
            shell(text, folder, env)


@pytest.mark.parametrize("name", ["tutorial", "numpy"])
def test_what_the_page_shows_is_what_happens(name: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("unisono")
    run_page(ROOT / "docs" / f"{name}.md", tmp_path, environment())


@pytest.mark.skipif(
    shutil.which("pkg-config") is None or shutil.which("cmake") is None,
    reason="pkg-config and cmake are needed",
)
def test_programs_in_cpp_are_built_and_do_what_the_page_shows(tmp_path: Path) -> None:
    prefix = tmp_path / "installed"
    installing = ["cmake", "--install", str(PROGRAM.parents[1]), "--prefix", str(prefix)]
    subprocess.run(installing, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)
    folder = tmp_path / "work"
    folder.mkdir()
    run_page(ROOT / "docs" / "cpp.md", folder, environment(prefix))


def test_another_output_would_be_noticed() -> None:
    assert matches("[1] b…\n[0] a\n", "[0] a\n[1] b c\n")
    assert not matches("[0] a\n", "")
    assert not matches("", "[0] a\n")
    assert not matches("[0] a\n", "[0] a\n[0] a\n")
    assert not matches("[0] a\n", "[0] b\n")
