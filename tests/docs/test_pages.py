"""The documents: every block in them is run, and what it prints is compared.

A fence with a name behind its language (```python hello.py) is a file. One of the language
`console` is what happens in a shell in the folder of those files: after `$ ` a command, below it
what it prints, where `…` stands for anything. Ranks print in any order, so lines are sorted. When a
command stays in the background (`&`), those of its block are one script, and what all of them print
is compared together.

A fence of the language `text` is nothing to be run: a picture, a message. Any other that is not
run has `<!-- not run: … -->` above it, with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, ROOT
from tests.torch.conftest import BUILT

PATIENCE = 120.0
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"^<!-- not run: [^\n]+ -->\n```.*?^```$", re.MULTILINE | re.DOTALL)
PORT = "29500"  # of a store, unless it is told another
# Whose blocks other tests run: test_reference.py, test_clusters.py, those below.
ELSEWHERE = ("reference", "kubernetes.md", "slurm.md", "cpp.md", "c.md", "data_parallel.md")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {*page.parts} & {*ELSEWHERE}),
]

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


def steps(session: str) -> list[tuple[str, str]]:
    """The commands of a console, each with what it prints; one, if they need each other."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]]
    each = [(command, expected) for command, _, expected in parts]
    if not any(command.endswith("&") for command, _ in each):
        return each
    with socket.socket() as probe:  # the usual port may be in use
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = "\n".join(["trap 'kill -KILL $(jobs -p)' EXIT", *(command for command, _ in each)])
    script = script.replace("store serve", f"store serve --port {port}")
    printed = "".join(expected for _, expected in each)
    return [(script.replace(PORT, port), printed.replace(PORT, port))]


def shell(session: str, folder: Path, env: dict[str, str]) -> None:
    """Runs the commands of a console, one after the other."""
    for command, expected in steps(session):
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


def blocks(page: Path) -> list[tuple[str, str]]:
    """What is to be run of a page. Of the examples of the README test_readme.py takes care."""
    text = re.sub(r"<!-- example:begin.*?example:end -->", "", page.read_text(), flags=re.DOTALL)
    return FENCE.findall(NOT_RUN.sub("", text))


def run_page(page: Path, folder: Path, env: dict[str, str], python: bool = True) -> None:
    for info, text in blocks(page):
        language, _, name = info.partition(" ")
        if not python and ".py" in (name or text):
            continue
        if name:
            (folder / name).write_text(text)
        elif language != "text":
            assert language == "console", f"{page.name}: nobody runs this block:\n{text}"
            shell(text, folder, env)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_what_the_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    if any(info.startswith("python") for info, _ in blocks(page)):
        pytest.importorskip("numpy")
        pytest.importorskip("unisono")
    if page.name == "pytorch.md" and not BUILT:
        pytest.skip("the backend for PyTorch is not installed")
    run_page(page, tmp_path, environment())


@pytest.mark.skipif(
    shutil.which("pkg-config") is None or shutil.which("cmake") is None,
    reason="pkg-config and cmake are needed",
)
def test_programs_in_cpp_and_c_are_built_and_do_what_the_pages_show(tmp_path: Path) -> None:
    prefix = tmp_path / "installed"
    installing = ["cmake", "--install", str(PROGRAM.parents[1]), "--prefix", str(prefix)]
    subprocess.run(installing, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "hello_c.c", folder)
    python = all(importlib.util.find_spec(name) for name in ("numpy", "unisono"))
    for page in ("cpp.md", "c.md", "data_parallel.md"):
        run_page(ROOT / "docs" / page, folder, environment(prefix), python)


def test_another_output_would_be_noticed() -> None:
    assert matches("[1] b…\n[0] a\n", "[0] a\n[1] b c\n")
    assert not matches("[0] a\n", "")
    assert not matches("", "[0] a\n")
    assert not matches("[0] a\n", "[0] a\n[0] a\n")
    assert not matches("[0] a\n", "[0] b\n")


def test_a_block_that_nobody_runs_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: why -->\n```sh\nno\n```\n\n```text\nno\n```\n")
    run_page(page, tmp_path, environment())

    page.write_text("```sh\nls\n```\n")
    with pytest.raises(AssertionError, match="nobody runs this block"):
        run_page(page, tmp_path, environment())
