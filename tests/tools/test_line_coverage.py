"""Promises of tools/line_coverage.py."""

from __future__ import annotations

import io
import json

import line_coverage as coverage
import pytest


def _export(*files: tuple[str, int, int]) -> dict[str, object]:
    return {
        "data": [
            {
                "files": [
                    {
                        "filename": name,
                        "summary": {
                            "lines": {
                                "count": lines,
                                "covered": covered,
                                "percent": 100 * covered / lines,
                            }
                        },
                    }
                    for name, lines, covered in files
                ]
            }
        ]
    }


def test_shows_files_in_order_and_relative_to_the_folder() -> None:
    export = _export(("/here/src/b.cpp", 200, 199), ("/here/src/a.cpp", 3, 1))
    assert coverage.table(export, "/here").splitlines()[2:] == [
        "| src/a.cpp | 3 | 1 | 33.3 |",
        "| src/b.cpp | 200 | 199 | 99.5 |",
    ]


@pytest.mark.parametrize(("covered", "code"), [(94, 1), (95, 0)])
def test_fails_when_one_file_is_below_the_least(
    monkeypatch: pytest.MonkeyPatch, covered: int, code: int
) -> None:
    export = _export(("/here/a.cpp", 100, 100), ("/here/b.cpp", 100, covered))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(export)))
    assert coverage.main(["/here", "95"]) == code


@pytest.mark.parametrize(("wanted", "code"), [("src/a.cpp", 0), ("src/gone.cpp", 1)])
def test_fails_when_a_wanted_file_was_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wanted: str, code: int
) -> None:
    export = _export(("/here/src/a.cpp", 100, 100))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(export)))
    assert coverage.main(["/here", "95", "src/a.cpp", wanted]) == code
    assert (wanted in capsys.readouterr().err) == (code == 1)


def test_no_file_at_all_is_no_success() -> None:
    assert coverage.least({"data": [{"files": []}]}) == 0
