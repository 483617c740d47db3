"""Checks that files and functions stay small enough to be read at once.

A file has at most 600 lines (a test file 800), a function at most 60. What must be longer is
listed with its reason in tools/size_exemptions.txt.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cpp_functions import Function, find_functions
from tree import CPP_SUFFIXES, Complaint, run_check, walk

FILE_LIMIT = 600
TEST_FILE_LIMIT = 800
FUNCTION_LIMIT = 60

FOLDERS = (
    *("include", "src", "cli", "capi", "python", "torch", "bench", "examples", "fuzz", "tests"),
    *("tools", "scripts", "cmake", ".ci"),
)
SUFFIXES = (*CPP_SUFFIXES, ".py", ".sh", ".cmake")
EXEMPTIONS = "tools/size_exemptions.txt"


@dataclass
class Exemptions:
    """Limits of single files and functions, and which of them were needed."""

    limits: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> limit, line
    used: set[str] = field(default_factory=set)

    def limit(self, name: str, size: int, fallback: int) -> int:
        """The limit for `name`: its own if it needs one."""
        if size <= fallback or name not in self.limits:
            return fallback
        self.used.add(name)
        return self.limits[name][0]


def read_exemptions(text: str) -> tuple[Exemptions, list[Complaint]]:
    exemptions = Exemptions()
    complaints = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(.+?) (\d+) (\S.*)", line)
        if match:
            exemptions.limits[match[1]] = (int(match[2]), number)
        else:
            complaints.append(Complaint(EXEMPTIONS, number, "must be: path limit reason"))
    return exemptions, complaints


def python_functions(text: str) -> list[Function]:
    """The functions of a Python source; inner ones count as part of the outer, and alone."""
    return [
        Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def functions_of(path: Path, text: str) -> list[Function]:
    if path.suffix == ".py":
        return python_functions(text)
    return find_functions(text) if path.name.endswith(CPP_SUFFIXES) else []


def check(root: Path) -> list[Complaint]:
    listing = root / EXEMPTIONS
    exemptions, complaints = read_exemptions(listing.read_text() if listing.is_file() else "")
    for path in walk(root, FOLDERS, SUFFIXES):
        where = path.relative_to(root).as_posix()
        text = path.read_text()
        lines = len(text.splitlines())
        usual = TEST_FILE_LIMIT if where.startswith("tests/") else FILE_LIMIT
        limit = exemptions.limit(where, lines, usual)
        if lines > limit:
            text_ = f"the file has {lines} lines, {limit} are allowed: split it"
            complaints.append(Complaint(where, 1, text_))
        for function in functions_of(path, text):
            name = f"{where}::{function.name}"
            limit = exemptions.limit(name, function.lines, FUNCTION_LIMIT)
            if function.lines > limit:
                text_ = f"{function.name} has {function.lines} lines, {limit} are allowed"
                complaints.append(Complaint(where, function.line, text_))
    for name, (_, number) in exemptions.limits.items():
        if name not in exemptions.used:
            complaints.append(Complaint(EXEMPTIONS, number, f"{name} needs no exemption any more"))
    return complaints


if __name__ == "__main__":
    sys.exit(run_check("sizes", "Checks the length of files and functions.", check))
