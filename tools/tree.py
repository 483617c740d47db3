"""What the checks share: the files of the tree, C++ text without its comments, complaints."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CPP_SUFFIXES = (".hpp", ".h", ".cpp")
NOT_OURS = {
    *(".git", ".venv", "build", "__pycache__"),
    *(".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}


@dataclass(frozen=True, order=True)
class Complaint:
    """One thing that is wrong, where, and what to do about it."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def walk(root: Path, folders: Iterable[str], suffixes: tuple[str, ...] = ()) -> Iterator[Path]:
    """The files below `folders` of `root` that end in one of `suffixes`, sorted."""
    for folder in folders:
        for place, inner, names in os.walk(root / folder):
            inner[:] = sorted(set(inner) - NOT_OURS)
            for name in sorted(names):
                if not suffixes or name.endswith(suffixes):
                    yield Path(place) / name


_TOKENS = re.compile(
    r"""
    (?P<comment> //(?:[^\n\\]|\\(?:\n|.))* | /\*.*?\*/ )
  | (?P<raw> (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" )
  | (?P<string> "(?:[^"\\\n]|\\.)*" )
  | (?P<number> \b[0-9][0-9a-fA-FxXbBpPuUlLzZ.']* )
  | (?P<char> '(?:[^'\\\n]|\\.)+' )
    """,
    re.DOTALL | re.VERBOSE,
)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def strip_cpp(text: str, *, keep_strings: bool = False) -> str:
    """C++ `text` with comments and the contents of literals blanked; lines stay where they are."""

    def replace(match: re.Match[str]) -> str:
        whole = match.group()
        if match.lastgroup == "number" or (keep_strings and match["comment"] is None):
            return whole
        if match["comment"] is not None:
            return _blank(whole)
        return whole[0] + _blank(whole[1:-1]) + whole[-1]

    return _TOKENS.sub(replace, text)


def line_of(text: str, offset: int) -> int:
    """The number of the line that holds `offset`, from 1."""
    return text.count("\n", 0, offset) + 1


def report(name: str, complaints: list[Complaint]) -> int:
    """Prints the complaints of a check and returns its exit code."""
    for complaint in sorted(complaints):
        print(complaint, file=sys.stderr)
    print(f"{name}: {len(complaints)} complaints" if complaints else f"{name}: good")
    return 1 if complaints else 0


def options_parser(purpose: str) -> argparse.ArgumentParser:
    """The options every check has."""
    parser = argparse.ArgumentParser(description=purpose)
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="the tree to check (this one)")
    return parser


def run_check(
    name: str,
    purpose: str,
    check: Callable[[Path], list[Complaint]],
    argv: list[str] | None = None,
) -> int:
    """Runs `check` on the tree of --root, prints its complaints and returns the exit code."""
    options = options_parser(purpose).parse_args(argv)
    return report(name, check(options.root.resolve()))
