"""Makes a Markdown table of how unisono and its peers grow with the number of ranks.

growth.py FILE…     documents of unisono_compare --json, one for each number of ranks
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PEERS = ("openmpi", "mpich", "gloo")

Row = dict[str, object]


def row_of(rows: list[Row], **wanted: object) -> Row | None:
    """The row with these values."""
    found = [row for row in rows if all(row[name] == wanted[name] for name in wanted)]
    return found[0] if found else None


def as_time(row: Row | None, name: str = "p50_us") -> str:
    if row is None:
        return "–"
    value = float(str(row[name]))
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _ratios(rows: list[Row], **wanted: object) -> str:
    found = [row_of(rows, peer=peer, **wanted) for peer in PEERS]
    return " / ".join("–" if row is None else f"{float(str(row['ratio'])):.3g}" for row in found)


def starts(documents: list[dict[str, list[Row]]]) -> list[str]:
    """Ranks, and for each library the time until all had met and the memory of one."""
    lines = [
        "| ranks | ms until all ranks met: unisono | " + " | ".join(PEERS) + " | "
        "KiB of a rank: unisono | " + " | ".join(PEERS) + " |",
        "|---" * (3 + 2 * len(PEERS)) + "|",
    ]
    for document in documents:
        rows = document["starts"]
        cells = [str(rows[0]["procs"])]
        for figure in ("ms", "kib_of_rank"):
            cells += [as_time(row_of(rows, peer=peer), figure) for peer in ("unisono", *PEERS)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def times(documents: list[dict[str, list[Row]]]) -> list[str]:
    """Each operation: unisono's time, the same for one rank, and the peers' times over it."""
    lines = [
        "| operation | bytes | ranks | µs | µs per rank | " + " / ".join(PEERS) + " over that |",
        "|---|---|---|---|---|---|",
    ]
    kinds = [(row["op"], row["size"]) for row in documents[0]["rows"] if row["peer"] == "unisono"]
    for op, size in kinds:
        for document in documents:
            row = row_of(document["rows"], peer="unisono", op=op, size=size)
            if row is None:
                continue
            each = float(str(row["p50_us"])) / float(str(row["procs"]))
            ratios = _ratios(document["rows"], op=op, size=size)
            cells = (op, size, row["procs"], as_time(row), f"{each:.2f}", ratios)
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    documents = [json.loads(Path(name).read_text()) for name in arguments]
    print("\n".join([*starts(documents), "", *times(documents)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
