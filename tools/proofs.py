"""Keeps docs/proofs.md: one section per proof, replaced each time the proof is run.

proofs.py section FILE NAME < text      puts text under the heading NAME
proofs.py table < figures.json          prints one JSON object as a Markdown table
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TITLE = """\
# Proofs

Runs that are too long for the tests, made by hand with `scripts/prove.sh NAME`. Each section is
written by its last successful run.
"""


def replace_section(page: str, name: str, body: str) -> str:
    """`page` with `body` under the heading `name`: in its old place, or at the end."""
    page = page or TITLE
    section = f"## {name}\n\n{body.strip()}\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    old = pattern.search(page)
    if old is None:
        return page.rstrip("\n") + "\n\n" + section
    rest = page[old.end() :]
    return page[: old.start()] + section + ("\n" + rest if rest else "")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return value if isinstance(value, str) else json.dumps(value)


def _rows(figures: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{prefix}{name} ")
        else:
            rows.append((f"{prefix}{name}".replace("_", " "), _shown(value)))
    return rows


def table(figures: dict[str, object]) -> str:
    """A JSON object as a table; objects inside it give rows of their own."""
    lines = ["| figure | value |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value} |" for name, value in _rows(figures)]) + "\n"


def main(arguments: list[str]) -> int:
    if arguments == ["table"]:
        print(table(json.load(sys.stdin)), end="")
        return 0
    if len(arguments) == 3 and arguments[0] == "section":
        path = Path(arguments[1])
        page = path.read_text() if path.is_file() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replace_section(page, arguments[2], sys.stdin.read()))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
