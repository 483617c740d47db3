"""What users do wrong is said by the classes they know, with what to do; nothing hangs or dies."""

from __future__ import annotations

import pytest

from tests.torch.test_failures import run_python
from tests.torch.world import Ended, run_world

torch = pytest.importorskip("torch")

TOGETHER = "wrong numbers in_callbacks dropped_backend one_more both_backends".split()
REFUSED = {  # by whom, and what
    "device": ("DistError", "unsupported device type meta"),
    "two types": ("DistError", "invalid tensor type at index 1 (expected float32, got int32)"),
    "gathered type": ("DistError", "invalid tensor type at index 0 (expected float32, got int32)"),
    "outputs": ("DistError", "(expected length 2, got 3)"),
    "size": ("DistError", "(expected (2), got (3))"),
    "root": ("DistError", "invalid root rank: -1"),
    "peer": ("DistError", "Invalid destination rank: 2"),
    "sparse in a scope": ("DistError", "a sparse tensor cannot be reduced inside a coalescing"),
    "strided": ("ValueError", "Tensors must be contiguous"),
}


@pytest.fixture(scope="module")
def ours() -> Ended:
    return run_world(",".join(f"mistakes.{name}" for name in TOGETHER), 2)


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_wrong_call_is_refused_with_a_line(ours: Ended, mistake: str) -> None:
    kind, text = REFUSED[mistake]
    for results in ours.of("mistakes.wrong"):
        said = results[mistake]
        assert said.startswith(f"{kind}: unisono: ") and text in said, said
        assert "[USAGE]" in said and "\n" not in said, said
        assert " DO: " in said or mistake in ("outputs", "size"), said  # these say it all


def test_a_group_goes_on_after_wrong_calls(ours: Ended) -> None:
    assert all(r["afterwards"].tolist() == [2.0, 2.0] for r in ours.of("mistakes.wrong"))


def test_every_operation_has_a_number(ours: Ended) -> None:
    for results in ours.of("mistakes.numbers"):
        assert results["steps"] == [0, 4, 5]


def test_exceptions_of_users_reach_them_and_harm_nobody(ours: Ended) -> None:
    for results in ours.of("mistakes.in_callbacks"):
        assert "the user's own" in results["then"], results
        assert "the user's own" in results["hook"], results
        assert results["afterwards"].tolist() == [2.0]


def test_a_backend_may_go_while_its_callbacks_need_python(ours: Ended) -> None:
    assert all(results["ran"] for results in ours.of("mistakes.dropped_backend"))


def test_inference_mode_works_and_a_short_wait_may_be_repeated(ours: Ended) -> None:
    receiver, sender = ours.of("mistakes.one_more")
    assert receiver["sum"].tolist() == sender["sum"].tolist() == [2.0, 2.0]
    assert receiver["short"].startswith("DistBackendError") and receiver["message"].item() == 1.0
    assert "imed out" in receiver["short"], receiver


def test_gloo_and_unisono_are_friends(ours: Ended) -> None:
    for results in ours.of("mistakes.both_backends"):
        assert results["names"] == ["unisono", "gloo"]
        assert [results[name].item() for name in ("gloo", "world", "gloo again")] == [3.0] * 3


def test_works_may_outlive_their_backend() -> None:
    first, other = run_world("mistakes.kept_works", 2).of("mistakes.kept_works")
    for results in (first, other):
        assert results["done"] and results["sum"].item() == 2.0 and results["gone"]
    assert first["pending"].startswith("DistBackendError: unisono: "), first


def test_a_rank_that_does_not_come_to_a_collective_is_named() -> None:
    said = [r["said"] for r in run_world("mistakes.absent", 3).of("mistakes.absent")[:2]]
    assert all(text.startswith("DistBackendError: unisono: ") for text in said), said
    assert any("culprits=[2]" in text for text in said), said


def test_a_rank_that_does_not_come_to_the_meeting_is_named() -> None:
    program = (
        "import datetime, torch.distributed as d\n"
        "try:\n"
        "    d.init_process_group('unisono', store=d.HashStore(), rank=0, world_size=2,\n"
        "                         timeout=datetime.timedelta(seconds=1))\n"
        "except d.DistError as error:\n"
        "    print(type(error).__name__, error)"
    )
    ended = run_python(program)
    assert "unisono: " in ended.stdout and "rank 1" in ended.stdout, ended
    assert ended.stdout.count("\n") == 1 and "DO: " in ended.stdout, ended


def test_ctrl_c_ends_a_collective_and_a_wait() -> None:
    said = run_world("mistakes.interrupted", 2).of("mistakes.interrupted")[0]
    assert said == {"wait": "KeyboardInterrupt", "collective": "KeyboardInterrupt"}
