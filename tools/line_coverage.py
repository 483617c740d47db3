"""Makes a Markdown table of line coverage.

llvm-cov export -summary-only … | line_coverage.py FOLDER LEAST [FILE…]

Names are relative to FOLDER. Fails when a file is covered in less than LEAST percent of its lines,
or when one of FILE is not there at all: a file that nothing was compiled from has no percentage.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def table(export: dict[str, Any], folder: str) -> str:
    """One row for each file, in order of names."""
    lines = ["| file | lines | reached | % |", "|---|---|---|---|"]
    for file in sorted(export["data"][0]["files"], key=lambda file: str(file["filename"])):
        count = file["summary"]["lines"]
        name = os.path.relpath(file["filename"], folder)
        lines.append(f"| {name} | {count['count']} | {count['covered']} | {count['percent']:.1f} |")
    return "\n".join(lines) + "\n"


def least(export: dict[str, Any]) -> float:
    """The percentage of the worst file."""
    percents = (float(file["summary"]["lines"]["percent"]) for file in export["data"][0]["files"])
    return min(percents, default=0.0)


def absent(export: dict[str, Any], folder: str, wanted: list[str]) -> list[str]:
    """Those of the wanted files of which nothing is known."""
    names = {os.path.relpath(file["filename"], folder) for file in export["data"][0]["files"]}
    return [name for name in wanted if name not in names]


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, percent, *wanted = arguments
    export = json.load(sys.stdin)
    print(table(export, folder), end="")
    missing = absent(export, folder, wanted)
    for name in missing:
        print(f"line_coverage: {name} is in no program that was measured", file=sys.stderr)
    return 0 if not missing and least(export) >= float(percent) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
