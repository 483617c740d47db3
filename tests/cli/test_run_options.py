"""Every option of `unisono run`: those of the real torchrun, with what they do here, and ours."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.launching import launch, shell
from tests.cli.program import NEEDS_PROGRAM, PROGRAM, assert_one_line, run

pytestmark = NEEDS_PROGRAM

CORES = len(os.sched_getaffinity(0))
SHOW = """echo $RANK/$WORLD_SIZE/$LOCAL_RANK $GROUP_RANK $ROLE_NAME
echo $TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_SIGNALS_TO_HANDLE"""


class Seen(NamedTuple):
    """What a job of `sh` has left."""

    code: int
    lines: list[str]
    said: str
    folder: Path

    def log(self, name: str) -> str:
        (path,) = self.folder.rglob(name)
        return path.read_text()


class Row(NamedTuple):
    """An option: how it is given, to which script, and what must come of it."""

    words: tuple[str, ...]
    script: str
    holds: Callable[[Seen], bool]


def prints(*lines: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.code == 0 and sorted(seen.lines) == sorted(lines)


def is_idle(option: str) -> Callable[[Seen], bool]:
    """It is taken, and one line says that there is nothing to choose."""
    return lambda seen: (
        (seen.code, seen.lines) == (0, ["[0] x"])
        and seen.said == f"unisono: {option} changes nothing here\n"
    )


# As torchrun names them; values are in words of their own.
TORCHRUN: dict[str, Row] = {
    "--nnodes": Row(("--nnodes", "1:1"), "echo $GROUP_WORLD_SIZE", prints("[0] 1")),
    "--nproc-per-node": Row(("--nproc-per-node", "2"), "echo x", prints("[0] x", "[1] x")),
    "--rdzv-backend": Row(("--rdzv-backend", "c10d"), "echo x", prints("[0] x")),
    "--rdzv-endpoint": Row(
        ("--rdzv-endpoint", "localhost:0"), "echo $MASTER_ADDR", prints("[0] localhost")
    ),
    "--rdzv-id": Row(("--rdzv-id", "job7"), "echo $TORCHELASTIC_RUN_ID", prints("[0] job7")),
    "--rdzv-conf": Row(("--rdzv-conf", "timeout=5,a=b"), "echo x", is_idle("--rdzv-conf")),
    "--standalone": Row(("--standalone",), "echo $MASTER_ADDR", prints("[0] localhost")),
    "--max-restarts": Row(
        ("--max-restarts", "1"),
        "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo $TORCHELASTIC_MAX_RESTARTS",
        prints("[0] 1"),
    ),
    "--monitor-interval": Row(
        ("--monitor-interval", "0.5"), "echo x", is_idle("--monitor-interval")
    ),
    "--start-method": Row(("--start-method", "fork"), "echo x", is_idle("--start-method")),
    "--event-log-handler": Row(
        ("--event-log-handler", "null"), "echo x", is_idle("--event-log-handler")
    ),
    "--role": Row(("--role", "trainer"), "echo $ROLE_NAME", prints("[0] trainer")),
    "--module": Row(("--module", "--dry-run"), "", lambda seen: "-m" in plan(seen)["command"]),
    "--no-python": Row(("--no-python",), "echo x", prints("[0] x")),
    "--run-path": Row(("--run-path",), "echo x", is_idle("--run-path")),
    "--log-dir": Row(
        ("--log-dir", "LOGS", "-r", "1"), "echo x", lambda seen: seen.log("stdout.log") == "x\n"
    ),
    "--redirects": Row(
        ("--redirects", "1", "--log-dir", "LOGS"),
        "echo x",
        lambda seen: seen.lines == [] and seen.log("stdout.log") == "x\n",
    ),
    "--tee": Row(
        ("--tee", "1", "--log-dir", "LOGS"),
        "echo x",
        lambda seen: seen.lines == ["[0] x"] and seen.log("stdout.log") == "x\n",
    ),
    "--local-ranks-filter": Row(
        ("--local-ranks-filter", "1", "-n", "2"), "echo x", prints("[1] x")
    ),
    "--duplicate-stdout-filters": Row(
        ("--duplicate-stdout-filters", "apple,a,,b", "--tee", "3", "--log-dir", "LOGS"),
        "echo an apple; echo a pear; echo a,b; echo apple >&2",
        lambda seen: seen.log("filtered_stdout.log") == "[0] an apple\n[0] a,b\n",
    ),
    "--duplicate-stderr-filters": Row(
        ("--duplicate-stderr-filters", "apple", "--tee", "0:2", "-n", "2", "--log-dir", "LOGS"),
        "echo apple; echo apple of $RANK >&2",
        lambda seen: seen.log("filtered_stderr.log") == "[0] apple of 0\n",
    ),
    "--node-rank": Row(("--node-rank", "0"), "echo $GROUP_RANK", prints("[0] 0")),
    "--master-addr": Row(
        ("--master-addr", "127.0.0.1", "--master-port", "0"),
        "echo $MASTER_ADDR",
        prints("[0] 127.0.0.1"),
    ),
    "--master-port": Row(
        ("--master-port", "4711", "--dry-run"),
        "",
        lambda seen: plan(seen)["ranks"][0]["environment"]["MASTER_PORT"] == "4711",
    ),
    "--local-addr": Row(
        ("--local-addr", "127.0.0.9"), "echo $UNISONO_HOST_ADDR", prints("[0] 127.0.0.9")
    ),
    "--logs-specs": Row(("--logs-specs", "default"), "echo x", is_idle("--logs-specs")),
    "--numa-binding": Row(
        ("--numa-binding", "exclusive", "-n", str(CORES)), "nproc", lambda seen: binds_apart(seen)
    ),
    "--signals-to-handle": Row(
        ("--signals-to-handle", "SIGUSR1"),
        "trap 'echo told; exit 0' USR1; kill -USR1 $PPID; while :; do sleep 0.1; done",
        lambda seen: (seen.code, seen.lines) == (128 + signal.SIGUSR1, ["[0] told"]),
    ),
    "--shutdown-timeout": Row(
        ("--shutdown-timeout", "0.1", "-n", "2"),
        "[ $RANK = 1 ] && exit 3; trap '' TERM; while :; do sleep 0.1; done",
        lambda seen: seen.code == 5,
    ),
    "--virtual-local-rank": Row(
        ("--virtual-local-rank", "-n", "2"),
        "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES",
        prints("[0] 0 0", "[1] 0 1"),
    ),
}

OURS: dict[str, Row] = {
    "--bind": Row(
        ("--bind", "127.0.0.2"), "echo ${UNISONO_STORE%:*}", prints("[0] tcp://127.0.0.2")
    ),
    "--dry-run": Row(("--dry-run",), "", lambda seen: plan(seen)["schema"] == "unisono-run-plan/1"),
    "--env": Row(("--env", "A=b"), "echo $A", prints("[0] b")),
    "--grace": Row(("--grace", "1"), "echo x", prints("[0] x")),
    "--ifname": Row(("--ifname", "lo"), "echo $UNISONO_IFNAME", prints("[0] lo")),
    "--prefix": Row(("--prefix", "none"), "echo x", prints("x")),
    "--stdin": Row(("--stdin", "none"), "cat", prints()),
    "--threads": Row(("--threads", "3"), "echo $OMP_NUM_THREADS", prints("[0] 3")),
}
OF_ALL_COMMANDS = {"--help", "--json", "--version", "--verbose", "--quiet", "--color", "--config"}


def plan(seen: Seen) -> Any:  # noqa: ANN401 (a document)
    return json.loads("\n".join(seen.lines))


def binds_apart(seen: Seen) -> bool:
    """Each rank has cores of its own: hyperthreads are not parted, so there may be too few."""
    if "ranks share" in seen.said:
        return seen.code == 2
    return seen.code == 0 and {line.split()[1] for line in seen.lines} == {"1"}


def torchruns_parser() -> argparse.ArgumentParser:
    pytest.importorskip("torch")
    from torch.distributed.run import get_args_parser

    parser: argparse.ArgumentParser = get_args_parser()
    return parser


def torchruns_names() -> set[str]:
    """One for each option, the one with dashes."""
    names = set()
    for action in torchruns_parser()._actions:
        long = [name for name in action.option_strings if name.startswith("--")]
        names |= {name for name in long[:1] if name != "--help"}
    return names


def test_the_table_is_that_of_the_real_torchrun() -> None:
    assert TORCHRUN.keys() == torchruns_names()


def test_the_rest_of_the_table_is_what_the_help_shows() -> None:
    shown = set(
        re.findall(
            r"(?<![\w-])--[a-z][a-z-]*", run("run", "--help").stdout.partition("Example:")[0]
        )
    )

    assert shown <= TORCHRUN.keys() | OURS.keys() | OF_ALL_COMMANDS
    assert OURS.keys() <= shown


@pytest.mark.parametrize("option", [*TORCHRUN, *OURS])
def test_an_option_does_what_it_says(option: str, tmp_path: Path) -> None:
    row = (TORCHRUN | OURS)[option]
    words = [word.replace("LOGS", str(tmp_path)) for word in row.words]
    program = ("json.tool",) if option == "--module" else shell(row.script)

    done = launch(*words, *program, PYTHON_EXEC=sys.executable)
    seen = Seen(done.returncode, done.stdout.splitlines(), done.stderr, tmp_path)

    assert row.holds(seen), done
    assert option in words


def test_every_spelling_of_torchruns_is_taken() -> None:
    for action in torchruns_parser()._actions:
        for name in action.option_strings:
            if name in ("-h", "--help"):
                continue
            (words,) = [row.words for key, row in TORCHRUN.items() if key in action.option_strings]
            option = next(key for key in TORCHRUN if key in action.option_strings)
            given = [name if word == option else word.replace("LOGS", "/tmp") for word in words]
            done = launch(*given, "--dry-run", "sh", PYTHON_EXEC=sys.executable)

            assert done.returncode == 0 or "ranks share" in done.stderr, (name, done)


def test_defaults_are_torchruns() -> None:
    defaults = {name: torchruns_parser().get_default(name) for name in ("role", "max_restarts")}
    done = launch(*shell(SHOW))

    first, second = done.stdout.splitlines()
    assert first == f"[0] 0/1/0 0 {defaults['role']}"
    signals = torchruns_parser().get_default("signals_to_handle")
    assert second == f"[0] {defaults['max_restarts']} {signals}"


def test_options_that_change_nothing_are_named_in_one_line() -> None:
    words = ("--start-method", "spawn", "--run-path", "--monitor-interval=1")
    done = launch(*words, *shell("echo x"))

    assert done.stderr == (
        "unisono: --monitor-interval, --start-method, --run-path change nothing here\n"
    )
    assert launch("-q", *words, *shell("echo x")).stderr == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rdzv-conf", "timeout"), "--rdzv-conf timeout makes no sense"),
        (("--start-method", "thread"), "thread"),
        (("--monitor-interval", "soon"), "soon"),
        (("--numa-binding", "house"), "house"),
        (("-n", "xpu"), "-n xpu: there is none here"),
        (("-n", "tpu"), "-n tpu is no number of ranks"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], why: str) -> None:
    done = launch(*words, "true")

    assert_one_line(done, 2)
    assert why in done.stderr


def test_a_rank_needs_a_gpu_to_see_one_alone() -> None:
    words = ("--virtual-local-rank", "-n", "2", *shell("echo $CUDA_VISIBLE_DEVICES"))

    seen = launch(*words, CUDA_VISIBLE_DEVICES="4, 6")
    assert sorted(seen.stdout.splitlines()) == ["[0] 4", "[1] 6"]
    done = launch(*words, CUDA_VISIBLE_DEVICES="4")
    assert done.returncode != 0
    assert "has no GPU for local rank 1" in done.stderr


def test_ranks_can_be_counted_by_what_there_is() -> None:
    count = shell("echo $WORLD_SIZE")
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))

    assert int(launch("-n", "cpu", *count).stdout.split()[1]) <= CORES
    assert launch("-n", "auto", *count).returncode == 0
    assert 1 <= int(launch("-n", "numa", *count).stdout.split()[1]) <= max(1, len(nodes))
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        assert "-n gpu: there is none here" in launch("-n", "gpu", *count).stderr


def test_our_variables_go_before_torchruns_and_the_line_before_both() -> None:
    count = shell("echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS")
    given = {
        "UNISONO_RUN_NPROC_PER_NODE": "2",
        "PET_NPROC_PER_NODE": "3",
        "PET_MAX_RESTARTS": "4",
        "UNISONO_RUN_DRY_RUN": "0",
    }

    assert sorted(launch(*count, **given).stdout.splitlines()) == ["[0] 2 4", "[1] 2 4"]
    assert launch("-n", "1", *count, **given).stdout == "[0] 1 4\n"
    dry = launch(*count, **{**given, "UNISONO_RUN_DRY_RUN": "1"})
    assert json.loads(dry.stdout)["schema"] == "unisono-run-plan/1"


def test_a_variable_that_is_no_option_is_warned_about_by_the_launcher_alone() -> None:
    done = launch(str(PROGRAM), "info", UNISONO_RUN_MAX_RESTART="1")

    assert done.stderr.count("environment variable") == 1
    assert "did you mean UNISONO_RUN_MAX_RESTARTS?" in done.stderr
