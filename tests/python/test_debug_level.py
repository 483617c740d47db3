"""The debug level: torch's names, and torch's behaviour."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.python.conftest import PATIENCE

REFUSED = "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."


@pytest.fixture(autouse=True)
def _restored(dist: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("UNISONO_DEBUG", raising=False)
    monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG", raising=False)
    yield
    dist.set_debug_level(dist.DebugLevel.OFF)


def test_levels_have_torchs_names_and_numbers(dist: Any) -> None:
    level = dist.DebugLevel

    assert list(level.__members__) == ["OFF", "INFO", "DETAIL"]
    assert [int(level.OFF), int(level.INFO), int(level.DETAIL)] == [0, 1, 2]
    assert repr(level.INFO) == "<DebugLevel.INFO: 1>"
    assert str(level.INFO) == "DebugLevel.INFO"
    assert (level.DETAIL.name, level.DETAIL.value) == ("DETAIL", 2)
    assert level(2) is level.DETAIL or level(2) == level.DETAIL
    assert level.INFO != 1
    assert [10, 11, 12][level.DETAIL] == 12
    assert pickle.loads(pickle.dumps(level.INFO)) == level.INFO
    with pytest.raises(TypeError):
        assert level.OFF < level.INFO


def test_the_level_is_what_was_set_last(dist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "info")
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() == dist.DebugLevel.INFO

    monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() == dist.DebugLevel.OFF


@pytest.mark.parametrize("word", ["", "LOUD", "1"])
def test_other_words_are_refused(dist: Any, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", word)

    with pytest.raises(ValueError, match=REFUSED.replace(".", r"\.")):
        dist.set_debug_level_from_env()


def test_only_a_level_can_be_set(dist: Any) -> None:
    with pytest.raises(TypeError):
        dist.set_debug_level(1)
    with pytest.raises(TypeError):
        dist.set_debug_level("INFO")


@pytest.mark.parametrize(
    ("environment", "level"),
    [
        ({}, "OFF"),
        ({"TORCH_DISTRIBUTED_DEBUG": "detail"}, "DETAIL"),
        ({"TORCH_DISTRIBUTED_DEBUG": "detail", "UNISONO_DEBUG": "info"}, "INFO"),
    ],
)
def test_a_process_begins_with_the_level_of_its_environment(
    environment: dict[str, str], level: str
) -> None:
    program = "import unisono.distributed as dist; print(dist.get_debug_level().name)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    assert ended.stdout.strip() == level
    assert ended.stderr == ""
