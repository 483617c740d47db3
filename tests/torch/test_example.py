"""examples/torch/train.py: trains alike under both launchers, and says who was killed."""

from __future__ import annotations

import functools
import re
import select
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.program import NEEDS_PROGRAM, PROGRAM, ROOT, environment
from tests.torch.world import PATIENCE

torch = pytest.importorskip("torch")
pytestmark = NEEDS_PROGRAM

EXAMPLE = str(ROOT / "examples" / "torch" / "train.py")
LAUNCHERS = {
    "unisono run": (str(PROGRAM), "run", "-n", "2"),
    "torchrun": (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
    ),
}
LAST = re.compile(
    r"(\w+) on 2 ranks over (\w+): loss ([\d.]+) -> ([\d.]+), weights (\w{16})$", re.M
)
STEPS = 24


class Trained(NamedTuple):
    losses: tuple[float, float]  # the first and the last one
    weights: str  # their fingerprint
    drawing: str


@functools.cache
def trained(launcher: str, parallel: str, backend: str = "unisono") -> Trained:
    """How a run ended; each is made once."""
    options = ("--parallel", parallel, "--backend", backend, "--steps", str(STEPS))
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [*LAUNCHERS[launcher], EXAMPLE, *options],
            cwd=folder,
            env=environment(PYTHON_EXEC=sys.executable),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == 0, ended
        drawing = (Path(folder) / "loss.svg").read_text()
    found = LAST.search(ended.stdout)
    assert found and found.groups()[:2] == (parallel, backend), ended
    assert f"step {STEPS}/{STEPS}" in ended.stdout
    return Trained((float(found[3]), float(found[4])), found[5], drawing)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_the_example_ends_with_the_same_bits_under_both_launchers(parallel: str) -> None:
    assert trained("unisono run", parallel) == trained("torchrun", parallel)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_the_example_learns_and_as_much_as_over_gloo(parallel: str) -> None:
    """Both ways are the same training: one of them is enough as the reference."""
    first, last = trained("unisono run", parallel).losses
    wanted = trained("torchrun", "ddp", "gloo").losses
    assert last < first - 1
    assert first == pytest.approx(wanted[0], abs=1e-3)
    assert last == pytest.approx(wanted[1], abs=1e-2)


def heights(drawing: str) -> list[float]:
    """Of the curve at every step, in pixels of 270."""
    image = xml.etree.ElementTree.fromstring(drawing)
    (curve,) = image.findall("{http://www.w3.org/2000/svg}polyline")
    return [float(point.partition(",")[2]) for point in curve.attrib["points"].split()]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_the_example_draws_the_curve_that_it_draws_over_gloo(parallel: str) -> None:
    drawn = heights(trained("unisono run", parallel).drawing)
    wanted = heights(trained("torchrun", "ddp", "gloo").drawing)
    assert len(drawn) == len(wanted) == STEPS
    assert drawn == pytest.approx(wanted, abs=2)


def test_a_rank_that_is_killed_in_mid_training_is_named_by_all_others() -> None:
    """Without a launcher, which might end the others before they say anything."""
    meeting = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ExitStack() as stack:
        ranks = []
        for rank in range(3):
            ranks.append(stack.enter_context(rank_of_three(rank, meeting.port)))
            stack.callback(ranks[-1].kill)
        shown = ranks[0].stdout
        assert shown is not None
        assert select.select([shown], [], [], PATIENCE)[0], "rank 0 does not begin"
        assert "step 1/" in shown.readline()
        ranks[2].kill()
        for survivor in ranks[:2]:
            _, said = survivor.communicate(timeout=PATIENCE)
            assert survivor.returncode == 1, said
            last = said.strip().splitlines()[-1]
            assert "DistBackendError: unisono: " in last, said
            assert "[PEER_DEAD]" in last and "culprits=[2]" in last, said


def rank_of_three(rank: int, port: int) -> subprocess.Popen[str]:
    place = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1"}
    # As under torchrun: the store is somebody else's.
    there = {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    return subprocess.Popen(
        [sys.executable, EXAMPLE, "--steps", "1000000"],
        env=environment(**place, **there),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
