"""A rank that fails in the midst of a step: the others learn who it was, soon, and end well.

Every rank is a process. It prints what it met as a line of JSON, and ends by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import unisono
from tests.python.conftest import PATIENCE, run_python
from unisono.testing import local_world

np = pytest.importorskip("numpy")

SIZE = 3
VICTIM = 1
# The timeout of the group, which no wait may need.
TIMEOUT = 300.0
# Seconds until a death is known; milliseconds where processors are free.
SOON = 30.0

PROGRAM = """
    import json, os, signal, sys, threading, time
    import numpy as np
    import unisono

    rank, folder, moment = int(sys.argv[1]), sys.argv[2], sys.argv[3]

    def reach(here):
        if rank == 1 and here == moment and step == 2:
            with open(folder + "/when", "w") as file:
                file.write(str(time.monotonic()))
            die()

    def mark(model, param):
        model.ready(param, np.full(sizes[param], 1.0 + rank))

    sizes = [5, 3000, 1, 70_000]  # each has a bucket of its own
    world = unisono.init("file://" + folder + "/store", rank=rank, size=3, timeout=300)
    model = unisono.DataParallel([np.zeros(size) for size in sizes], world,
                                 bucket_bytes_cap_list=[1], **OPTIONS)
    try:
        for step in range(1000):  # what was under way may still end well
            model.begin()
            reach("before the first bucket")
            mark(model, 3)
            mark(model, 2)
            reach("between buckets")
            mark(model, 1)
            reach("before the last bucket")
            mark(model, 0)
            reach("after the last bucket")
            model.finish()
            assert all((model.grad(param) == 2).all() for param in range(4))
            reach("after the step")
    except unisono.DistError as error:
        late = time.monotonic() - float(open(folder + "/when").read())
        print(json.dumps([type(error).__name__, error.reason, list(error.culprits), step, late]))
        # Who ends because of a failure must not be taken for the one who caused it.
        open(f"{folder}/told-{rank}", "w").close()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if all(os.path.exists(f"{folder}/told-{other}") for other in (0, 2)):
                break
            time.sleep(0.01)
"""

MOMENTS = [
    "before the first bucket",
    "between buckets",
    "before the last bucket",
    "after the last bucket",
    "after the step",
]
KILL = "die = lambda: os.kill(os.getpid(), signal.SIGKILL)"
RAISE = "def die(): raise ZeroDivisionError('in a step')"


class Ranks:
    """The processes of a program, by rank."""

    def __init__(self, program: str, folder: Path, moment: str = "", **env: str) -> None:
        self.all = [
            subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", program, str(rank), folder, moment],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **env},
            )
            for rank in range(SIZE)
        ]

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            process.kill()
            process.communicate()

    def end(self, rank: int) -> tuple[int, str, str]:
        """Its exit, and what it said. One that hangs fails the test."""
        out, err = self.all[rank].communicate(timeout=2 * PATIENCE)
        return self.all[rank].returncode, out, err


def program(die: str, options: str = "{}") -> str:
    body = textwrap.dedent(PROGRAM).replace("**OPTIONS", f"**{options}")
    return body.replace("\ndef reach", f"\n{die}\n\ndef reach", 1)


def check_survivors(ranks: Ranks, kind: str, reasons: set[str]) -> None:
    for rank in (0, 2):
        code, out, err = ranks.end(rank)
        assert (code, err) == (0, ""), err
        told, reason, culprits, step, late = json.loads(out)
        assert (told, culprits) == (kind, [VICTIM]), out
        assert reason in reasons, out
        assert step in (2, 3)
        assert late < SOON < TIMEOUT


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rank_that_is_killed_is_named_to_the_others(
    moment: str, transport: str, tmp_path: Path
) -> None:
    env = {"UNISONO_TRANSPORT": "tcp"} if transport == "tcp" else {}
    with Ranks(program(KILL), tmp_path, moment, **env) as ranks:
        assert ranks.end(VICTIM)[0] == -signal.SIGKILL
        check_survivors(ranks, "PeerDeadError", {"PEER_DEAD"})


@pytest.mark.parametrize(
    "options",
    [
        "{'gradient_as_bucket_view': False}",
        "{'find_unused_parameters': True}",
        "{'hook': unisono.distributed.BuiltinCommHookType.FP16_COMPRESS}",
        "{'hook': lambda b: world.all_reduce(b.buffer(), 'avg', async_op=True)}",
    ],
)
def test_however_gradients_are_reduced(options: str, tmp_path: Path) -> None:
    text = program(KILL, options).replace("import unisono\n", "import unisono.distributed\n", 1)
    with Ranks(text, tmp_path, "between buckets") as ranks:
        assert ranks.end(VICTIM)[0] == -signal.SIGKILL
        check_survivors(ranks, "PeerDeadError", {"PEER_DEAD"})


@pytest.mark.parametrize("moment", MOMENTS[:4])
def test_a_rank_that_raises_is_named_to_the_others(moment: str, tmp_path: Path) -> None:
    with Ranks(program(RAISE), tmp_path, moment) as ranks:
        code, _, err = ranks.end(VICTIM)
        assert code == 1
        assert err.rstrip().endswith("ZeroDivisionError: in a step")
        assert "Fatal" not in err
        check_survivors(ranks, "DistBackendError", {"PEER_LEFT"})


def test_a_rank_that_never_calls_is_named_when_the_time_is_over() -> None:
    def train(world: unisono.Group) -> Any:
        model = unisono.DataParallel(
            {"first": np.zeros(3), "last": np.zeros(3)}, world, bucket_bytes_cap_list=[1]
        )
        model.begin()
        model.ready("last", np.ones(3))
        if world.rank == VICTIM:
            world_is_over.wait(PATIENCE)
            return None
        model.ready("first", np.ones(3))
        with pytest.raises(unisono.DistError) as caught:
            model.finish()
        if world.rank == 0:
            told.append(caught.value)
        ended.append(world.rank)
        if len(ended) == SIZE - 1:
            world_is_over.set()
        world._leave()
        return None

    world_is_over = threading.Event()
    told: list[unisono.DistError] = []
    ended: list[int] = []
    with local_world(SIZE, timeout=2.0) as worlds:
        worlds.run(train)
        worlds[VICTIM]._leave()
    assert told[0].culprits == (VICTIM,)
    assert told[0].reason in ("TIMEOUT", "PEER_LEFT", "ABORTED"), told[0]


def test_ctrl_c_in_finish_leaves_a_step_that_can_be_finished() -> None:
    """The other rank comes late: only after the interrupt."""
    ended = run_python(
        """
        import os, signal, threading
        import numpy as np, unisono
        from unisono.testing import local_world

        interrupted = threading.Event()

        def other(model):
            model.begin()
            model.ready(1, [1.0])
            interrupted.wait()
            model.ready(0, [2.0])
            model.finish()

        with local_world(2) as worlds:
            models = worlds.run(lambda world: unisono.DataParallel(
                [np.zeros(1), np.zeros(1)], world, bucket_bytes_cap_list=[1]))
            thread = threading.Thread(target=other, args=(models[1],))
            thread.start()
            models[0].begin()
            models[0].ready(1, [3.0])
            models[0].ready(0, [4.0])
            for _ in range(2):
                try:
                    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
                    models[0].finish()
                except KeyboardInterrupt:
                    print("interrupted")
            interrupted.set()
            models[0].finish()
            thread.join()
            print([float(model.grad(param)[0]) for model in models for param in (0, 1)])
        """
    )

    assert ended.stdout == "interrupted\ninterrupted\n[3.0, 2.0, 3.0, 2.0]\n", ended
    assert ended.returncode == 0, ended


INTERRUPTED = """
    import json, sys
    import numpy as np
    import unisono

    rank, folder = int(sys.argv[1]), sys.argv[2]
    world = unisono.init("file://" + folder + "/store", rank=rank, size=3, timeout=300)
    model = unisono.DataParallel([np.zeros(3)], world)
    model.begin()
    if rank != 1:
        sys.stdin.readline()  # until rank 1 is gone
    model.ready(0, np.ones(3))
    print("waiting", flush=True)
    try:
        model.finish()
    except unisono.DistError as error:
        print(json.dumps([error.reason, list(error.culprits)]))
"""


def test_ctrl_c_that_nobody_catches_ends_the_rank_and_is_told_to_the_others(
    tmp_path: Path,
) -> None:
    with Ranks(textwrap.dedent(INTERRUPTED), tmp_path) as ranks:
        victim = ranks.all[VICTIM]
        assert victim.stdout is not None
        assert victim.stdout.readline() == "waiting\n"
        victim.send_signal(signal.SIGINT)
        code, _, err = ranks.end(VICTIM)
        assert code == -signal.SIGINT
        assert err.rstrip().endswith("KeyboardInterrupt")
        for rank in (0, 2):
            process = ranks.all[rank]
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for rank in (0, 2):
            code, out, err = ranks.end(rank)
            assert (code, err) == (0, "")
            reason, culprits = json.loads(out.splitlines()[-1])
            assert reason in ("PEER_LEFT", "ABORTED")
            assert culprits == [VICTIM]
