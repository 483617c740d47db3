"""What goes wrong is said in one line, by classes of torch.distributed, and ends nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.torch.world import PATIENCE, ROOT, run_world

torch = pytest.importorskip("torch")


def test_wrong_calls_are_refused_and_the_group_goes_on() -> None:
    for results in run_world("refusals", 2).of("refusals"):
        assert "requires non-empty tensor list" in results["no tensors"]
        assert "DistError" in results["no tensors"]
        assert "expected length 2, got 1" in results["too few"]
        assert "two types" in results and "not refused" not in results["two types"]
        assert "invalid root rank: 2" in results["root"]
        assert "Cannot use ReduceOp.AVG with boolean inputs" in results["flags"]
        assert "Cannot use ReduceOp.BAND with non-integral dtype" in results["bits"]
        assert "conjugated" in results["conjugated"]
        assert results["afterwards"].tolist() == [2.0, 2.0]


def test_different_types_are_told_to_all() -> None:
    for results in run_world("mismatch", 2).of("mismatch"):
        assert results["said"].startswith("DistBackendError: unisono: "), results
        assert "[MISMATCH]" in results["said"]


def test_a_destroyed_group_is_refused() -> None:
    for results in run_world("after_destroy", 2).of("after_destroy"):
        assert "not refused" not in results["by name"]
        assert "[SHUTDOWN]" in results["by group"], results


def test_a_killed_rank_is_named_to_the_others() -> None:
    ended = run_world("killed", 3)
    assert ended.codes == [0, 0, -9], ended
    for results in [result["killed"] for result in ended.results[:2]]:
        assert results["said"].startswith("DistBackendError: unisono: "), results
        assert "[PEER_DEAD]" in results["said"] and "culprits=[2]" in results["said"]
        assert results["seconds"] < 20


def test_an_operation_that_takes_too_long_says_so() -> None:
    said = run_world("late", 2).of("late")[0]["said"]
    assert said.startswith("DistBackendError: unisono: ") and " Timed out waiting 300ms" in said


def test_a_monitored_barrier_names_who_does_not_come() -> None:
    said = run_world("monitored", 3).of("monitored")[0]["said"]
    assert "Rank 1 failed to pass monitoredBarrier in 500 ms" in said, said


def test_a_forked_child_is_refused_and_harms_nobody() -> None:
    for results in run_world("forked", 2).of("forked"):
        assert "[FORKED]" in results["said"], results
        assert results["sum"].tolist() == [2.0]


def test_ctrl_c_ends_a_wait() -> None:
    assert run_world("interrupted", 2).of("interrupted")[0]["said"] == "KeyboardInterrupt"


def run_python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


ALONE = """
import torch, torch.distributed as dist
dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(3)
"""


def test_a_world_may_be_left_without_destroying_it() -> None:
    ended = run_python(ALONE + "work = dist.all_reduce(x, async_op=True); keep = [work, x]")
    assert (ended.returncode, ended.stdout) == (0, ""), ended
    assert "Fatal" not in ended.stderr


def test_one_rank_alone_is_a_world() -> None:
    program = ALONE + (
        "dist.all_reduce(x, dist.ReduceOp.AVG); dist.barrier(); y = torch.empty(3)\n"
        "dist.all_to_all_single(y, x); dist.reduce_scatter_single(y, x); print(y.tolist())\n"
        "print(dist.get_backend(), dist.get_world_size()); dist.destroy_process_group()"
    )
    ended = run_python(program)
    assert ended.stdout == "[1.0, 1.0, 1.0]\nunisono 1\n", ended
