"""Makes a Markdown table of unisono's times, and of its peers' over them with their ranges.

beside.py FILE…     documents of unisono_compare --json, one for each number of ranks
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from growth import PEERS, Row, as_time, row_of


def _ratio(row: Row | None) -> str:
    """The median of all rounds, and from the least to the most of them."""
    if row is None:
        return "–"
    figures = [float(str(row[name])) for name in ("ratio", "ratio_least", "ratio_most")]
    return "{:.3g} ({:.3g} to {:.3g})".format(*figures) + (" *" if row["noisy"] else "")


def _better_mode(rows: list[Row], ours: Row, **wanted: object) -> str:
    """Gloo at times sleeps where it spins at others: its fast tenth over ours."""
    gloo = row_of(rows, peer="gloo", **wanted)
    if gloo is None:
        return "–"
    return f"{float(str(gloo['p10_us'])) / float(str(ours['p10_us'])):.3g}"


def table(documents: list[dict[str, list[Row]]]) -> list[str]:
    lines = [
        "| operation | bytes | ranks | p10, µs | p50, µs | " + " | ".join(PEERS) + " | gloo, p10 |",
        "|---" * (6 + len(PEERS)) + "|",
    ]
    for document in documents:
        rows = document["rows"]
        for ours in (row for row in rows if row["peer"] == "unisono"):
            wanted = {"op": ours["op"], "size": ours["size"]}
            cells = [str(ours["op"]), str(ours["size"]), str(ours["procs"])]
            cells += [as_time(ours, "p10_us"), as_time(ours)]
            cells += [_ratio(row_of(rows, peer=peer, **wanted)) for peer in PEERS]
            lines.append("| " + " | ".join([*cells, _better_mode(rows, ours, **wanted)]) + " |")
    return lines


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(table([json.loads(Path(name).read_text()) for name in arguments])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
