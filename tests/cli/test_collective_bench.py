"""`unisono bench`: collectives of ranks that it starts, or of a job."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.program import (
    NEEDS_PROGRAM,
    PATIENCE,
    PROGRAM,
    assert_one_line,
    environment,
    is_gone,
    run,
    run_for,
    wait_until,
)

pytestmark = NEEDS_PROGRAM

IMPORTS = 200.0  # seconds, for ranks that import torch all at once
QUICK = ("-b", "64", "-e", "4K", "-f", "64", "-n", "5", "--rounds", "1")


def bench(*arguments: str, patience: float = 4 * PATIENCE, **env: str) -> dict[str, Any]:
    done = run_for(patience, "bench", *arguments, *QUICK, "--json", **env)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_measures_ranks_that_it_starts_itself() -> None:
    document = bench("all_reduce", "-d", "half", "-o", "max", UNISONO_STORE="tcp://127.0.0.1:1")

    assert document["schema"] == "unisono-bench/1"
    assert {"processor", "kernel", "unisono", "ranks"} <= set(document["environment"])
    assert [row["size"] for row in document["rows"]] == [64, 4096]
    for row in document["rows"]:
        assert (row["peer"], row["op"], row["procs"]) == ("unisono", "all_reduce", 2)
        assert (row["dtype"], row["redop"], row["count"]) == ("float16", "max", row["size"] // 2)
        assert 0 < row["p50_us"] <= row["p99_us"]
        assert row["busbw"] == pytest.approx(row["algbw"])  # 2 (P - 1) / P
        assert row["wrong"] == 0 and row["ratio"] is None


def test_measures_every_operation_of_any_number_of_ranks() -> None:
    document = bench("all", "--procs", "3", "--compare", "unisono,in-place")

    operations = {row["op"] for row in document["rows"]}
    assert operations == {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "send_recv",
        "barrier",
    }
    assert {row["peer"] for row in document["rows"]} == {"unisono", "in place"}
    assert not any(row["wrong"] for row in document["rows"])
    assert all(row["ratio"] for row in document["rows"] if row["peer"] == "in place")


@pytest.mark.parametrize("reduction", ["prod", "min", "avg"])
def test_checks_what_every_reduction_makes(reduction: str) -> None:
    for row in bench("reduce_scatter", "-o", reduction, "-d", "bfloat16")["rows"]:
        assert (row["redop"], row["wrong"]) == (reduction, 0)


@pytest.mark.parametrize("op", ["reduce", "broadcast", "gather", "scatter"])
def test_another_rank_may_be_the_root(op: str) -> None:
    assert not any(row["wrong"] for row in bench(op, "-r", "2", "--procs", "3")["rows"])


def test_takes_the_algorithms_and_the_transport_that_are_named() -> None:
    document = bench("--algo", "allreduce=tcp/ring", "--transport", "tcp", "--no-pin")

    assert document["environment"]["algo"] == "allreduce=tcp/ring"
    assert document["environment"]["transport"] == "tcp"
    assert not any(row["wrong"] for row in document["rows"])


def test_prints_a_table_for_people() -> None:
    done = run("bench", *QUICK)

    assert done.returncode == 0, done.stderr
    head, *lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    columns = "operation size count type redop library time us p50 us p99 us algbw busbw wrong"
    assert head.split() == [*columns.split(), "ratio"]
    assert len(lines) == 2
    assert all(line.startswith("all_reduce ") for line in lines)


def test_takes_part_in_a_job() -> None:
    done = run_for(
        2 * PATIENCE,
        *("run", "-n", "3", "--prefix", "none", "--no-python", str(PROGRAM)),
        *("bench", "all_gather", *QUICK, "--json"),
    )

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # one of them has printed it
    assert {row["procs"] for row in document["rows"]} == {3}
    assert not any(row["wrong"] for row in document["rows"])


def test_ranks_of_a_job_are_not_compared() -> None:
    done = run("bench", *QUICK, "--compare", "gloo", RANK="0", WORLD_SIZE="1")

    assert_one_line(done, 2)
    assert "this is one of a job" in done.stderr


def test_who_is_not_there_is_named_with_a_remedy(tmp_path: Path) -> None:
    alone = tmp_path / "unisono"  # as where only the program is installed
    shutil.copy(PROGRAM, alone)
    done = subprocess.run(
        [
            *(alone, "bench", *QUICK, "--json", "--compare", "mpi,gloo,torch+gloo"),
            *("--python", tmp_path / "python"),
        ],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env=environment(),
        check=False,
    )

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    missing = document["missing"]
    assert "--python" in missing.pop("torch+gloo")
    assert set(missing) == {"mpi:openmpi", "mpi:mpich", "gloo"}
    assert all("scripts/setup.sh peers" in why for why in missing.values())
    assert {row["peer"] for row in document["rows"]} == {"unisono"}


@pytest.mark.skipif(
    not PROGRAM.with_name("compare_gloo").exists(), reason="Gloo is not installed: setup.sh peers"
)
def test_measures_others_in_turns() -> None:
    document = bench("--compare", "gloo")

    assert document["missing"] == {}
    rows = [row for row in document["rows"] if row["peer"] == "gloo"]
    assert len(rows) == 2
    assert all(row["ratio"] > 0 and row["wrong"] == 0 for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("all",),
        ("all", "--procs", "3", "-r", "1", "-o", "prod", "-d", "half"),
        ("reduce", "-o", "avg"),
        ("--back-to-back",),
    ],
)
def test_measures_torch_from_python_in_the_same_rounds(arguments: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    compared = ("--compare", "torch+gloo", "--python", sys.executable)
    document = bench(*arguments, *compared, patience=IMPORTS)

    assert document["missing"] == {}
    assert document["environment"]["version of torch+gloo"].startswith("torch 2.")
    rows = [row for row in document["rows"] if row["peer"] == "torch+gloo"]
    ours = [row for row in document["rows"] if row["peer"] == "unisono"]
    assert [(row["op"], row["size"]) for row in rows] == [(row["op"], row["size"]) for row in ours]
    assert all(row["ratio"] > 0 and row["wrong"] == 0 for row in rows)
    assert all(row.keys() - {"ratio_range"} == ours[0].keys() for row in rows)


def test_draws_a_picture_and_keeps_the_document(tmp_path: Path) -> None:
    picture, kept = tmp_path / "times.svg", tmp_path / "bench.json"
    document = bench("--plot", str(picture), "-J", str(kept))

    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert json.loads(kept.read_text()) == document


def test_fails_when_it_got_slower_than_it_was(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    document = bench("all_reduce")

    def compared(factor: float) -> subprocess.CompletedProcess[str]:
        rows = [{**row, "p50_us": row["p50_us"] * factor} for row in document["rows"]]
        before.write_text(json.dumps({**document, "rows": rows}))
        return run("bench", *QUICK, "--baseline", str(before), "--fail-over", "50%")

    assert compared(1e6).returncode == 0
    slower = compared(1e-6)
    assert slower.returncode == 1
    assert slower.stderr.count(f"slower than {before}: unisono all_reduce of ") == 2


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema":"unisono-bench/1"}'])
def test_a_baseline_that_is_none_is_refused_before_anything_is_measured(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "other").write_text(text)
    done = run("bench", "--baseline", str(tmp_path / "other"))

    assert_one_line(done, 2)
    assert "is not what unisono bench --json has printed" in done.stderr


def test_a_baseline_of_something_else_is_no_success(tmp_path: Path) -> None:
    document = bench("all_reduce")
    (tmp_path / "before").write_text(json.dumps({**document, "rows": []}))
    done = run("bench", *QUICK, "--baseline", str(tmp_path / "before"))

    assert done.returncode == 2
    assert "has nothing that was measured now" in done.stderr


@pytest.mark.parametrize("option", ["--plot", "-J"])
def test_says_at_once_that_a_file_cannot_be_written(tmp_path: Path, option: str) -> None:
    done = run("bench", option, str(tmp_path / "no" / "file"))

    assert_one_line(done, 1)
    assert "cannot write" in done.stderr


@contextmanager
def measuring(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A bench that would take long, and its ranks, once it measures."""
    with subprocess.Popen(
        [PROGRAM, "bench", "-b", "1K", "-e", "64K", "--rounds", "1000", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            maps = Path(f"/proc/{process.pid}/maps")
            wait_until("all ranks", lambda: "/board (deleted)" in maps.read_text())
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            yield process, [int(pid) for pid in children.read_text().split()]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ends_by_the_signal_and_leaves_nothing(number: signal.Signals) -> None:
    with measuring() as (process, ranks):
        process.send_signal(number)
        _, complaint = process.communicate(timeout=PATIENCE)

    code = -number if number == signal.SIGKILL else 128 + number
    assert (process.returncode, complaint) == (code, "")
    assert len(ranks) == 2
    for rank in ranks:
        wait_until("the end of its ranks", partial(is_gone, rank))


def test_names_a_library_that_loses_a_rank() -> None:
    with measuring() as (process, ranks):
        os.kill(ranks[1], signal.SIGKILL)
        _, complaint = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert "unisono lost a rank" in complaint
    assert "[PEER_DEAD]" in complaint


def test_a_library_that_does_not_finish_in_time_is_given_up() -> None:
    with measuring("-T", "1") as (process, ranks):
        os.kill(ranks[1], signal.SIGSTOP)
        _, complaint = process.communicate(timeout=PATIENCE)

    assert process.returncode == 4
    assert "unisono does not finish" in complaint
    assert "[TIMEOUT]" in complaint


def test_refuses_more_memory_than_there_is() -> None:
    done = run("bench", "--procs", "128", "-e", "1G")

    assert_one_line(done, 1)
    assert "needs 256 GiB of memory" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("all_reduze",), "there is no operation all_reduze"),
        (("-b", "many"), "64K"),
        (("-e", "2G"), "out of range"),
        (("-b", "1M", "-e", "1K"), "cannot begin with"),
        (("-f", "1"), "1"),
        (("-d", "float8"), "float8"),
        (("-o", "xor"), "xor"),
        (("-o", "avg", "-d", "int32"), "average of integers"),
        (("-c", "2"), "2"),
        (("-r", "2"), "has no rank 2"),
        (("-T", "0"), "0"),
        (("--algo", "allreduce=magic"), "names no algorithm"),
        (("--transport", "pigeon"), "pigeon"),
        (("--procs", "1"), "1"),
        (("--compare", "nobody"), "nobody"),
        (("--fail-over", "much"), "much"),
    ],
)
def test_refuses_what_makes_no_sense(arguments: tuple[str, ...], says: str) -> None:
    done = run("bench", *arguments)

    assert_one_line(done, 2)
    assert says in done.stderr
