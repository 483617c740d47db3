"""--config FILE: options that are kept in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import NEEDS_PROGRAM, run, serving

pytestmark = NEEDS_PROGRAM


def written(folder: Path, content: object) -> str:
    path = folder / "options.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_options_of_a_command_come_from_the_file(tmp_path: Path) -> None:
    with serving("--port", "0", "-q") as (_, url):
        file = written(tmp_path, {"endpoint": url.strip(), "json": True})

        assert run("store", "set", "k", "v", "--config", file).returncode == 0
        result = run("store", "get", f"--config={file}", "k")

    assert json.loads(result.stdout)["value"] == "v"


def test_the_line_goes_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, {"nproc-per-node": 3, "dry-run": True, "json": True})

    from_file = json.loads(run("run", "--config", file, "true").stdout)
    from_line = json.loads(run("run", "--nproc-per-node", "2", "--config", file, "true").stdout)

    assert len(from_file["ranks"]) == 3
    assert len(from_line["ranks"]) == 2


def test_a_variable_of_run_goes_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, {"nproc-per-node": 3, "dry-run": True, "json": True})

    result = run("run", "--config", file, "true", UNISONO_RUN_NPROC_PER_NODE="4")

    assert len(json.loads(result.stdout)["ranks"]) == 4


def test_a_list_gives_an_option_several_times(tmp_path: Path) -> None:
    file = written(tmp_path, {"env": ["A=1", "B=2"], "dry-run": True, "json": True})

    ranks = json.loads(run("run", "--config", file, "true").stdout)["ranks"]

    assert ranks[0]["environment"]["A"] == "1"
    assert ranks[0]["environment"]["B"] == "2"


def test_the_words_of_a_program_are_not_ours(tmp_path: Path) -> None:
    file = str(tmp_path / "missing.json")

    result = run("run", "-n", "1", "echo", "--config", file)

    assert result.returncode == 0
    assert f"--config {file}" in result.stdout


def test_false_and_null_give_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, {"json": False, "color": None})

    result = run("info", "--config", file)

    assert result.returncode == 0
    assert not result.stdout.startswith("{")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"json": tru', "is not JSON"),
        ("[1]", "is JSON, but no object"),
        ({"evn": True}, "has 'evn', which is no option of info; did you mean env?"),
        ({"color": {}}, "gives the option 'color' an object"),
        ({"color": "red"}, "--color"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, content: object, why: str) -> None:
    result = run("info", "--config", written(tmp_path, content))

    assert result.returncode == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = run("info", "--config", str(tmp_path / "missing.json"))

    assert result.returncode == 2
    assert "cannot be read: No such file or directory" in result.stderr
    assert result.stderr.count("\n") == 1
