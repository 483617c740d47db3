"""Checks that every header compiles alone, and twice in a row, and so does every source, which the
builds may compile together with others.

Public headers are compiled with nothing but include/ (and the generated version header) to look
in, private ones also with src/ and the headers of the libraries we build on. Those of the Python
bindings are left out where nanobind cannot be imported.

A private header that its own source includes before all else stands alone when that source
compiles: of such a header only the guard is checked. Sources of tests are not compiled by
themselves, nor those that include what need not be installed. What was good is marked
(tools/marks.py), and not compiled again until what the preprocessor makes of it has changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from marks import Marks
from tree import Complaint, options_parser, report, walk

ALONE = ("src", "bench", "cli")  # whose sources are compiled by themselves
LIBRARIES = ("libuv", "fmt", "libhwy", "spdlog")
FLAGS = ("-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror")


def make_version_header(root: Path, folder: Path) -> None:
    """What CMake generates from cmake/version.hpp.in, for a tree that was not configured."""
    template = root / "cmake" / "version.hpp.in"
    if not template.is_file():
        return
    version = (root / "VERSION").read_text().strip()
    text = template.read_text().replace("@PROJECT_VERSION@", version)
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=False):
        text = text.replace(f"@PROJECT_VERSION_{name}@", number)
    target = folder / "unisono" / "version.hpp"
    target.parent.mkdir(parents=True)
    target.write_text(text)


def library_flags() -> list[str]:
    """How to compile with the libraries that private headers may include."""
    program = shutil.which("pkg-config")
    if program is None:
        return []
    flags: list[str] = []
    for library in LIBRARIES:
        asked = subprocess.run([program, "--cflags", library], capture_output=True, text=True)
        flags += asked.stdout.split() if asked.returncode == 0 else []
    return flags


def binding_flags() -> list[str]:
    """How to compile with nanobind, or nothing when it is not there."""
    found = importlib.util.find_spec("nanobind")
    if found is None or found.origin is None:
        return []
    nanobind = Path(found.origin).parent / "include"
    python = sysconfig.get_path("include")
    return ["-isystem", str(nanobind), "-isystem", python, "-fvisibility=hidden"]


def own_source_comes_first(path: Path) -> bool:
    """Whether the source beside a header includes it before anything else."""
    source = path.with_suffix(".cpp")
    if not source.is_file():
        return False
    first = re.search(r'^#\s*include\s+["<](?:[^">]*/)?([^">/]+)[">]', source.read_text(), re.M)
    return first is not None and first[1] == path.name


class Headers:
    """Compiles the headers of one tree."""

    def __init__(self, root: Path, compiler: str, generated: Path) -> None:
        self.root = root
        self.compiler = compiler
        self.marks = Marks("headers")
        told = subprocess.run([compiler, "--version"], capture_output=True, check=True)
        self.version = told.stdout
        self.public = [f"-I{root / 'include'}", f"-I{generated}"]
        inside = [f"-I{root / folder}" for folder in (".", "src", "cli", "python", "tests")]
        self.private = [*self.public, *inside, *library_flags(), *binding_flags()]

    def check(self, path: Path) -> Complaint | None:
        where = path.relative_to(self.root).as_posix()
        if path.suffix == ".cpp":
            return self.compile(where, str(path))
        if where.split("/")[0] in ALONE and own_source_comes_first(path):
            if re.search(r"^#pragma once$", path.read_text(), re.M):
                return None
            return Complaint(where, 1, "has no #pragma once")
        return self.compile(where, "-x", "c++", "-", text=f'#include "{path}"\n' * 2)

    def compile(self, where: str, *what: str, text: str = "") -> Complaint | None:
        flags = self.public if where.startswith("include/") else self.private
        command = [self.compiler, *flags, *FLAGS, *what]
        seen = subprocess.run([*command, "-E", "-P"], input=text.encode(), capture_output=True)
        mark = hashlib.sha256(self.version + repr(FLAGS).encode() + seen.stdout).hexdigest()
        if seen.returncode == 0 and self.marks.has(mark):
            return None
        ran = subprocess.run(command, input=text, capture_output=True, text=True)
        if ran.returncode == 0:
            self.marks.add(mark)
            return None
        errors = [line for line in ran.stderr.splitlines() if "error" in line]
        reason = (errors or ran.stderr.splitlines() or ["no reason given"])[0]
        return Complaint(where, 1, f"does not compile alone: {reason.strip()}")


def check(root: Path, compiler: str, jobs: int) -> list[Complaint]:
    files = [
        *walk(root, ("include",), (".hpp", ".h")),
        *(path for path in walk(root, ALONE, (".cpp",)) if "peers" not in path.parts),
        *walk(root, ("src", "bench", "cli", "fuzz", "tests"), (".hpp", ".h")),
        *(walk(root, ("python",), (".hpp", ".h")) if binding_flags() else ()),
    ]
    with tempfile.TemporaryDirectory() as generated:
        make_version_header(root, Path(generated))
        tree = Headers(root, compiler, Path(generated))
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            return [complaint for complaint in pool.map(tree.check, files) if complaint]


def main(argv: list[str] | None = None) -> int:
    parser = options_parser("Checks that every header and every source compiles alone.")
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"), help="the compiler (c++)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args(argv)
    return report("headers", check(options.root.resolve(), options.cxx, options.jobs))


if __name__ == "__main__":
    sys.exit(main())
