"""Promises of tools/creation.py."""

from __future__ import annotations

import creation


def _row(peer: str, ranks: int, ms: float) -> dict[str, object]:
    return {
        "peer": peer,
        "procs": ranks,
        "ms": ms,
        "connections_of_rank": 15,
        "kib_of_rank": 1234.5,
        "first_us": 2500.0,
        "connections_after": 15.5,
        "kib_after": 2000.0,
    }


def test_shows_the_median_of_each_library_and_number_of_ranks() -> None:
    ours = [_row("unisono", 64, ms) for ms in (1, 9, 3)]
    rows = [_row("gloo", 64, 50), *ours, _row("gloo", 4, 7)]
    assert creation.table(rows)[2:] == [
        "| 4 | gloo | 7.0 | 15.0 | 1,234 | 2.5 | 15.5 | 2,000 |",
        "| 64 | unisono | 3.0 | 15.0 | 1,234 | 2.5 | 15.5 | 2,000 |",
        "| 64 | gloo | 50.0 | 15.0 | 1,234 | 2.5 | 15.5 | 2,000 |",
    ]


def test_without_files_it_tells_how_to_call_it() -> None:
    assert creation.main([]) == 2
