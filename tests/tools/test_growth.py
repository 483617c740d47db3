"""Promises of tools/growth.py."""

from __future__ import annotations

import growth


def _document(ranks: int, micros: float) -> dict[str, list[dict[str, object]]]:
    start = {"procs": ranks, "ms": 12.5, "kib_of_rank": 500.0}
    row = {"op": "barrier", "size": 0, "procs": ranks}
    return {
        "starts": [{"peer": "unisono", **start}, {"peer": "gloo", **start, "ms": 99.6}],
        "rows": [
            {"peer": "unisono", **row, "p50_us": micros},
            {"peer": "gloo", **row, "p50_us": 3 * micros, "ratio": 3.0},
        ],
    }


def test_shows_every_number_of_ranks_with_its_time_per_rank() -> None:
    lines = growth.times([_document(2, 1.0), _document(4, 20.0)])
    assert lines[2:] == [
        "| barrier | 0 | 2 | 1.00 | 0.50 | – / – / 3 |",
        "| barrier | 0 | 4 | 20 | 5.00 | – / – / 3 |",
    ]


def test_leaves_a_gap_where_a_library_is_missing() -> None:
    lines = growth.starts([_document(2, 1.0)])
    assert lines[2] == "| 2 | 12 | – | – | 100 | 500 | – | – | 500 |"


def test_without_files_it_tells_how_to_call_it() -> None:
    assert growth.main([]) == 2
