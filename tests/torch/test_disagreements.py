"""When ranks disagree, every one of them is told, and told what both sides do."""

from __future__ import annotations

import re

import pytest

from tests.torch.disagreements import LARGE, ODD, OPERATIONS, SMALL, ways
from tests.torch.world import Ended, run_world

torch = pytest.importorskip("torch")

SIZE = 3
TABLE = [(name, about) for name in OPERATIONS for about in ways(name)]


@pytest.fixture(scope="module")
def one_host() -> Ended:
    return run_world("disagreements.all_of_them", SIZE)


@pytest.fixture(scope="module")
def two_hosts() -> Ended:
    return run_world("disagreements.between_hosts", SIZE, hosts=2)


def assert_told(texts: list[str]) -> None:
    for said in texts:
        assert said.startswith("DistBackendError: unisono: "), said
        assert "[MISMATCH]" in said and "\n" not in said, said
        named = set(re.findall(r"rank (\d)", said.partition("{")[0]))
        assert str(ODD) in named and len(named) > 1, said


@pytest.mark.parametrize(("name", "about"), TABLE, ids=[", ".join(row) for row in TABLE])
def test_all_ranks_of_a_host_are_told_both_sides(one_host: Ended, name: str, about: str) -> None:
    for count in (SMALL, LARGE):
        key = f"{name}, {about}, {count}"
        assert_told([said[key] for said in one_host.of("disagreements.all_of_them")])


@pytest.mark.parametrize(("name", "about"), TABLE, ids=[", ".join(row) for row in TABLE])
def test_all_ranks_of_two_hosts_are_told_both_sides(
    two_hosts: Ended, name: str, about: str
) -> None:
    key = f"{name}, {about}, {SMALL}"
    assert_told([said[key] for said in two_hosts.of("disagreements.between_hosts")])
