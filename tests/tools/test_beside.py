"""Promises of tools/beside.py."""

from __future__ import annotations

import json
from pathlib import Path

import beside
import pytest


def _row(peer: str, p10: float, **more: object) -> dict[str, object]:
    return {
        "peer": peer,
        "op": "all_reduce",
        "size": 8,
        "procs": 2,
        "p10_us": p10,
        "p50_us": p10 * 2,
        "noisy": False,
        **more,
    }


def _document() -> dict[str, list[dict[str, object]]]:
    ratios = {"ratio": 30.0, "ratio_least": 2.5, "ratio_most": 31.25}
    return {"rows": [_row("unisono", 10.0), _row("gloo", 25.0, **ratios)]}


def test_gives_the_range_of_a_ratio_and_the_better_mode_of_gloo() -> None:
    line = beside.table([_document()])[2]

    assert line == "| all_reduce | 8 | 2 | 10 | 20 | – | – | 30 (2.5 to 31.2) | 2.5 |"


def test_marks_what_was_noisy() -> None:
    document = _document()
    document["rows"][1]["noisy"] = True

    assert "31.2) * |" in beside.table([document])[2]


def test_has_a_row_for_each_number_of_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.json"
    file.write_text(json.dumps(_document()))

    assert beside.main([str(file), str(file)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 2


def test_needs_a_document() -> None:
    assert beside.main([]) == 2
