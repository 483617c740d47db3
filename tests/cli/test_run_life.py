"""`unisono run`: how a job ends, whoever ends it; and that nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.launching import all_gone, launch, launched, pids_in, shell
from tests.cli.program import NEEDS_PROGRAM, PATIENCE, PROGRAM, run_bytes, wait_until

pytestmark = NEEDS_PROGRAM

# Rank 1 ends as the test wants it; the others would go on for long.
OTHERS_WAIT = "if [ $RANK != 1 ]; then exec sleep 1000; fi;"


def test_the_first_failure_is_shown_and_ends_the_others() -> None:
    done = launch("-n", "3", *shell(f"{OTHERS_WAIT} echo working; echo trouble >&2; exit 3"))

    assert done.returncode == 5
    told = done.stderr[done.stderr.index("unisono: ") :].splitlines()
    assert re.match(
        r"unisono: rank 1 \(pid \d+\) failed with exit code 3; so ranks 0, 2 were ended\.", told[0]
    )
    assert sorted(told[1:]) == ["    trouble", "    working"]


def test_a_signal_that_killed_a_rank_is_named() -> None:
    done = launch("-n", "2", *shell(f"{OTHERS_WAIT} kill -SEGV $$"))

    assert done.returncode == 5
    assert "was killed by SIGSEGV; so rank 0 was ended" in done.stderr


def test_only_the_last_lines_are_shown_again() -> None:
    done = launch("-q", *shell("seq 1000; exit 1"))
    assert done.stderr.count("\n") == 1

    done = launch(*shell("seq 1000; exit 1"))
    assert done.stderr.splitlines()[1:] == [f"    {line}" for line in range(951, 1001)]


def test_who_does_not_obey_is_killed_after_the_grace(tmp_path: Path) -> None:
    script = f'''
        trap "" TERM; : > "{tmp_path}/$$"
        if [ $RANK = 1 ]; then while [ "$(ls "{tmp_path}" | wc -l)" != 2 ]; do :; done; exit 1; fi
        while true; do sleep 0.1; done'''
    done = launch("-n", "2", "--grace", "0.3", *shell(script))

    assert done.returncode == 5
    all_gone([int(path.name) for path in tmp_path.iterdir()])


def test_a_program_that_cannot_be_executed_fails_as_in_a_shell(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    done = launch(str(program))

    assert done.returncode == 5
    assert f"[0] cannot execute {program}: No such file or directory" in done.stderr
    assert "failed with exit code 127" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    script = """
import os, signal, sys, time
def on(number, frame):
    print("got", signal.Signals(number).name)
    sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, on)
open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
while True:
    time.sleep(0.05)  # not pause(): a signal that comes just before it would not end it
"""
    with launched("-n", "2", sys.executable, "-uc", script, str(tmp_path)) as job:
        pids = pids_in(tmp_path, 2)
        job.send_signal(number)
        out, _ = job.communicate(timeout=PATIENCE)

    assert job.returncode == 128 + number
    assert sorted(out.splitlines()) == [f"[{rank}] got {number.name}" for rank in range(2)]
    all_gone(pids)


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    script = f'trap "" INT TERM; : > "{tmp_path}/$$"; while true; do sleep 0.1; done'
    with launched("-n", "2", "--grace", "1000", *shell(script)) as job:
        pids = pids_in(tmp_path, 2)
        job.send_signal(signal.SIGINT)
        assert job.stderr is not None
        assert "SIGINT: the ranks are told" in job.stderr.readline()
        job.send_signal(signal.SIGINT)

        assert job.wait(timeout=PATIENCE) == 130
    all_gone(pids)


def test_the_ranks_die_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    script = f': > "{tmp_path}/$$"; exec sleep 1000'
    with launched("-n", "3", *shell(script)) as job:
        pids = pids_in(tmp_path, 3)
        job.kill()
        job.wait(timeout=PATIENCE)
        all_gone(pids)


def test_what_ranks_have_started_dies_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    script = f'sleep 1000 & : > "{tmp_path}/$!"; wait'
    with launched("-n", "2", *shell(script)) as job:
        pids = pids_in(tmp_path, 2)
        job.kill()
        job.wait(timeout=PATIENCE)
        all_gone(pids)


def test_what_ranks_have_started_ends_with_them(tmp_path: Path) -> None:
    script = f'sleep 1000 & : > "{tmp_path}/$!"; echo done'
    done = launch("-n", "2", *shell(script))

    assert (done.returncode, done.stdout.count("done")) == (0, 2)
    all_gone(pids_in(tmp_path, 2))


def test_a_stopped_rank_does_not_hold_up_the_end(tmp_path: Path) -> None:
    script = f': > "{tmp_path}/$$"; if [ $RANK = 0 ]; then kill -STOP $$; fi; exec sleep 1000'
    with launched("-n", "2", *shell(script)) as job:
        pids = pids_in(tmp_path, 2)
        job.terminate()

        assert job.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
    all_gone(pids)


def test_all_start_anew_as_often_as_allowed() -> None:
    script = 'echo "try $TORCHELASTIC_RESTART_COUNT"; [ $TORCHELASTIC_RESTART_COUNT = 2 ]'
    done = launch("--max-restarts", "2", *shell(script))
    assert (done.returncode, done.stdout) == (0, "[0] try 0\n[0] try 1\n[0] try 2\n")
    assert "rank 0 failed: all are started anew (2 of 2)" in done.stderr

    done = launch("--max-restarts", "1", *shell(script))
    assert done.returncode == 5
    assert "it was attempt 2" in done.stderr


def test_nothing_of_an_attempt_is_in_the_store_of_the_next() -> None:
    script = """
import os, subprocess, sys
first = subprocess.run([sys.argv[1], "store", "get", "k"]).returncode == 1
subprocess.run([sys.argv[1], "store", "set", "k", "v"], check=True)
sys.exit(0 if first and os.environ["TORCHELASTIC_RESTART_COUNT"] == "1" else 1)
"""
    done = launch("--max-restarts", "1", sys.executable, "-c", script, str(PROGRAM))

    assert done.returncode == 0, done.stderr


def test_the_files_of_a_job_are_removed(tmp_path: Path) -> None:
    for program in ("true", "false"):
        launch("-n", "2", program, TMPDIR=str(tmp_path))

        assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_job_go_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    with launched("-n", "2", *shell("echo here; exec sleep 1000"), TMPDIR=str(tmp_path)) as job:
        assert job.stdout is not None
        job.stdout.readline()
        assert list(tmp_path.iterdir())
        job.kill()
        job.wait(timeout=PATIENCE)
        wait_until("the end of the folder", lambda: not list(tmp_path.iterdir()))


def test_only_the_secret_goes_when_the_logs_are_wanted(tmp_path: Path) -> None:
    with launched("--log-dir", str(tmp_path), "-t3", *shell("echo here; exec sleep 1000")) as job:
        assert job.stdout is not None
        job.stdout.readline()
        (folder,) = tmp_path.iterdir()
        assert (folder / "secret").exists()
        job.kill()
        job.wait(timeout=PATIENCE)
        wait_until("the end of the secret", lambda: not (folder / "secret").exists())

        assert (folder / "attempt_0/0/stdout.log").read_text() == "here\n"


def test_what_a_rank_writes_of_its_failure_is_shown(tmp_path: Path) -> None:
    account = {
        "message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "Trace\n  at f\n"}}
    }
    (tmp_path / "account").write_text(json.dumps(account))
    script = f'{OTHERS_WAIT} cp "{tmp_path}/account" $TORCHELASTIC_ERROR_FILE; echo bye; exit 1'
    done = launch("-n", "2", *shell(script))
    told = done.stderr[done.stderr.index("unisono: ") :].splitlines()
    assert told[1:] == ["    Trace", "      at f", "    bye"]

    done = launch("--json", "-n", "2", *shell(script))
    failed = json.loads(done.stdout.splitlines()[-1])["failed"]
    assert failed["error"] == {"message": "ValueError: no", "traceback": "Trace\n  at f\n"}


@pytest.mark.parametrize(
    "account", ["", "{", "[]", '{"message": 7}', '{"message": {"extraInfo": []}}', "\\377" * 9]
)
def test_an_account_that_makes_no_sense_is_left_out(account: str) -> None:
    script = f"printf '{account}' > $TORCHELASTIC_ERROR_FILE; echo bye; exit 1"
    done = launch(*shell(script))

    assert done.returncode == 5
    assert done.stderr.splitlines()[1:] == ["    bye"]


def test_a_traceback_that_was_printed_is_not_shown_twice() -> None:
    script = """
import json, os, sys
text = {"message": {"message": "no", "extraInfo": {"py_callstack": "Trace\\nValueError: no\\n"}}}
json.dump(text, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
sys.exit("Trace\\nValueError: no")
"""
    done = launch(sys.executable, "-c", script)
    told = done.stderr[done.stderr.index("unisono: ") :].splitlines()

    assert told[1:] == ["    Trace", "    ValueError: no"]


def test_a_rank_that_is_killed_is_named_to_the_others_and_here(tmp_path: Path) -> None:
    script = f'trap "echo told; exit" TERM; : > "{tmp_path}/$RANK-$$"; while :; do sleep 0.1; done'
    with launched("-n", "3", *shell(script)) as job:
        wait_until("3 ranks", lambda: len(list(tmp_path.iterdir())) == 3)
        pids = dict(path.name.split("-") for path in tmp_path.iterdir())
        os.kill(int(pids["1"]), signal.SIGKILL)
        out, err = job.communicate(timeout=PATIENCE)

    assert job.returncode == 5
    assert f"rank 1 (pid {pids['1']}) was killed by SIGKILL; so ranks 0, 2 were ended" in err
    assert sorted(out.splitlines()) == ["[0] told", "[2] told"]


def test_a_flood_of_garbage_does_not_hide_the_failure() -> None:
    script = "head -c 3000000 /dev/urandom; head -c 300000 /dev/urandom >&2; exit 9"
    with launched("-n", "2", *shell(script)) as job:
        assert job.stdout is not None and job.stderr is not None
        job.stdout.close()
        job.stderr.close()
        assert job.wait(timeout=PATIENCE) != 0

    done = run_bytes(b"", "run", "-q", "-n", "2", *shell(script))
    assert done.returncode == 5
    assert b"failed with exit code 9" in done.stderr


def test_a_reader_that_stops_reading_does_not_hold_up_the_end() -> None:
    with launched("-q", *shell("yes")) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "[0] y\n"
        job.terminate()

        assert job.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
