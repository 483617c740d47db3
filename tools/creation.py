"""Makes a Markdown table of what it takes to make a group by TCP.

creation.py FILE…     documents of unisono_compare --json, of any numbers of ranks
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

Row = dict[str, object]

FIGURES = (
    ("ms until all ranks met", "ms", 1.0),
    ("connections of a rank", "connections_of_rank", 1.0),
    ("KiB of a rank", "kib_of_rank", 1.0),
    ("first all_reduce, ms", "first_us", 1000.0),
    ("connections after it", "connections_after", 1.0),
    ("KiB after it", "kib_after", 1.0),
)


def _text(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def table(rows: list[Row]) -> list[str]:
    """A line for each number of ranks and library, unisono's first: the median of its rows."""
    lines = [
        "| ranks | library | " + " | ".join(name for name, _, _ in FIGURES) + " |",
        "|---" * (2 + len(FIGURES)) + "|",
    ]
    kinds = sorted({(int(str(r["procs"])), r["peer"] != "unisono", str(r["peer"])) for r in rows})
    for procs, _, peer in kinds:
        same = [row for row in rows if row["procs"] == procs and row["peer"] == peer]
        medians = [
            statistics.median(float(str(row[figure])) / unit for row in same)
            for _, figure, unit in FIGURES
        ]
        lines.append(f"| {procs} | {peer} | " + " | ".join(_text(each) for each in medians) + " |")
    return lines


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    documents = [json.loads(Path(name).read_text()) for name in arguments]
    print("\n".join(table([row for document in documents for row in document["starts"]])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
