"""Runs clang-tidy on sources, those that are compiled as one (cmake/Together.cmake) together: what
they all include is what takes longest. What was good before and has not changed since is not looked
at again, in no clone of this tree.

What a source is, is what the preprocessor makes of it, with comments, of which some are for
clang-tidy. What was good is marked (tools/marks.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from marks import Marks
from tree import options_parser

FOLDERS = ("src", "bench", "cli", "examples")


class Tidy:
    """clang-tidy on the sources that a build folder knows how to compile."""

    def __init__(self, root: Path, build: Path, program: str, marks: Marks) -> None:
        self.program = program
        self.build = build
        self.marks = marks
        version = subprocess.run([program, "--version"], capture_output=True, check=True).stdout
        self.rules = version + (root / ".clang-tidy").read_bytes()
        entries = json.loads((build / "compile_commands.json").read_text())
        self.commands = {Path(entry["file"]): entry for entry in entries}
        self.units = {source: unit for unit in self.commands for source in parts_of(unit, build)}

    def mark_of(self, source: Path) -> str | None:
        """Changes whenever the outcome might; None when the source does not even go so far."""
        words = shlex.split(self.commands[source]["command"])
        output = words.index("-o")
        words[output : output + 2] = []
        words[words.index("-c")] = "-E"
        ran = subprocess.run(
            [*words, "-P", "-C"], cwd=self.commands[source]["directory"], capture_output=True
        )
        if ran.returncode != 0:
            return None
        options = " ".join(word for word in words if word.startswith(("-W", "-D", "-std", "-O")))
        return hashlib.sha256(self.rules + options.encode() + ran.stdout).hexdigest()

    def complaints(self, source: Path) -> list[str]:
        mark = self.mark_of(source) if source in self.commands else None
        if mark is not None and self.marks.has(mark):
            return []
        ran = subprocess.run(
            [self.program, "-p", str(self.build), "--quiet", str(source)],
            capture_output=True,
            text=True,
        )
        if ran.returncode == 0:
            if mark is not None:
                self.marks.add(mark)
            return []
        kinds = (" warning: ", " error: ")
        lines = [line for line in ran.stdout.splitlines() if any(kind in line for kind in kinds)]
        return lines or [f"{source}: error: {(ran.stderr or 'no reason given').strip()}"]


def parts_of(unit: Path, build: Path) -> list[Path]:
    """The sources that are compiled as `unit`; one that CMake has made includes several. What the
    build itself writes is none of ours, and not there yet."""
    if build not in unit.parents:
        return [unit]
    if not unit.is_file():
        return []
    return [Path(name) for name in re.findall(r'^#include "(.*)"$', unit.read_text(), re.M)]


def sources_of(root: Path) -> list[Path]:
    """Without those that include what need not be installed."""
    found = (path for folder in FOLDERS for path in (root / folder).rglob("*.cpp"))
    return sorted(path for path in found if "peers" not in path.parts)


def main(argv: list[str] | None = None) -> int:
    parser = options_parser("Runs clang-tidy on sources, or on those that are named.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, help="where compile_commands.json is (build/tidy)")
    parser.add_argument("--program", default="clang-tidy-14")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args(argv)
    root = options.root.resolve()
    build = (options.build or root / "build" / "tidy").resolve()
    tidy = Tidy(root, build, options.program, Marks("tidy"))
    files = [path.resolve() for path in options.files] or sources_of(root)
    units = sorted({tidy.units.get(path, path) for path in files})
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        found = {line for lines in pool.map(tidy.complaints, units) for line in lines}
    for line in sorted(found):
        print(line.removeprefix(f"{root}/"))
    print(f"tidy: {len(found)} complaints" if found else "tidy: good")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
