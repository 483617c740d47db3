"""Makes a Markdown table of line coverage.

llvm-cov export -summary-only … | line_coverage.py FOLDER LEAST

Names are relative to FOLDER. Fails when a file is covered in less than LEAST percent of its lines.
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


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    export = json.load(sys.stdin)
    print(table(export, arguments[0]), end="")
    return 0 if least(export) >= float(arguments[1]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
