"""`unisono_compare`: collectives, alone here: others may not be installed."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.program import PATIENCE, PROGRAM, environment

COMPARE = PROGRAM.with_name("unisono_compare")

pytestmark = pytest.mark.skipif(not COMPARE.exists(), reason=f"{COMPARE} has not been built")


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMPARE), "--alone", "--rounds", "1", "--sizes", "8,4096", *arguments],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("transport", "peers"), [("best", {"unisono", "in place"}), ("tcp", {"unisono"})]
)
def test_says_how_the_ranks_reached_each_other(transport: str, peers: set[str]) -> None:
    done = compare("--json", "--transport", transport)

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["transport"] == transport
    assert {row["peer"] for row in document["rows"]} == peers
    assert not any(row["wrong"] for row in document["rows"])


def test_knows_no_other_transport() -> None:
    done = compare("--transport", "pigeon")

    assert done.returncode != 0
    assert "pigeon" in done.stderr
    assert "tcp" in done.stderr
