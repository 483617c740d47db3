"""`unisono run`: what the ranks are given, and what is seen of what they print."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.cli.launching import launch, launched, shell
from tests.cli.program import NEEDS_PROGRAM, PATIENCE, PROGRAM, assert_one_line, run, run_bytes

pytestmark = NEEDS_PROGRAM

HELLO = PROGRAM.parent / "example_hello"


@pytest.mark.skipif(not HELLO.exists(), reason=f"{HELLO} has not been built")
def test_ranks_find_each_other() -> None:
    done = launch("-n", "4", str(HELLO))

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}] rank {rank} of 4: the ranks add up to 6" for rank in range(4)
    ]


@pytest.mark.skipif(not HELLO.exists(), reason=f"{HELLO} has not been built")
def test_ranks_that_know_a_secret_find_each_other_by_it() -> None:
    done = launch("-n", "2", str(HELLO), UNISONO_AUTH_SECRET="known to nobody else")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("the ranks add up to 1") == 2


def test_the_store_outlives_rank_0(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f'''
        if [ $RANK = 0 ]; then "{PROGRAM}" store set left behind; touch "{gone}"; exit; fi
        while ! [ -e "{gone}" ]; do :; done
        "{PROGRAM}" store get left'''
    done = launch("-n", "2", *shell(script))

    assert (done.returncode, done.stdout) == (0, "[1] behind\n")


def test_a_script_is_run_by_python_and_a_module_too(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys; print(sys.argv[1:], sys.stdout.write_through)")
    python = {"PYTHON_EXEC": sys.executable, "PYTHONPATH": str(tmp_path)}

    script = launch(str(tmp_path / "job.py"), "-n", "7", **python)
    module = launch("-m", "job", "--json", **python)

    assert script.stdout == "[0] ['-n', '7'] True\n", script.stderr
    assert module.stdout == "[0] ['--json'] True\n", module.stderr


def test_a_script_is_executed_itself_if_asked_to(tmp_path: Path) -> None:
    script = tmp_path / "shell.py"
    script.write_text("#!/bin/sh\necho by sh\n")
    script.chmod(0o755)

    assert launch("--no-python", str(script)).stdout == "[0] by sh\n"
    assert launch("--no_python", str(script)).stdout == "[0] by sh\n"


def test_the_words_of_the_program_are_its_own() -> None:
    words = ["--json", "-n", "3", "--", "[1,2]", "", "store", "--help", "a b", "--max_restarts=1"]
    for mark in ((), ("--",)):
        done = launch("-q", *mark, sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)

        assert done.stdout == f"[0] {words}\n"


def test_torchruns_variables_give_options_that_the_line_may_give_again() -> None:
    given = {"PET_NPROC_PER_NODE": "3", "PET_MAX_RESTARTS": "2"}
    show = shell("echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS")

    assert launch(*show, **given).stdout.count("3 2\n") == 3
    assert launch("-n", "1", *show, **given).stdout == "[0] 1 2\n"


def test_the_ranks_share_the_cores_unless_told_otherwise() -> None:
    show = shell("echo ${OMP_NUM_THREADS-none}")
    shared = max(1, len(os.sched_getaffinity(0)) // 2)

    assert launch(*show).stdout == "[0] none\n"
    assert int(launch("-n", "2", *show).stdout.split()[1]) <= shared
    assert launch("--threads", "5", *show).stdout == "[0] 5\n"
    assert launch("-n", "2", *show, OMP_NUM_THREADS="7").stdout.count("7\n") == 2


def test_only_rank_0_reads_what_is_given() -> None:
    assert run_bytes(b"given\n", "run", "-n", "2", "cat").stdout == b"[0] given\n"
    nobody = run_bytes(b"given\n", "run", "-n", "2", "--stdin", "none", "cat")
    assert (nobody.returncode, nobody.stdout) == (0, b"")


def test_all_ranks_read_what_is_given_if_asked_to() -> None:
    text = b"".join(b"%d\n" % number for number in range(50_000))
    words = ("run", "-q", "-n", "3", "--stdin", "all")
    done = run_bytes(text, *words, *shell("[ $RANK = 1 ] && exec head -n 1; md5sum"))

    assert done.returncode == 0
    digest = hashlib.md5(text, usedforsecurity=False).hexdigest().encode()
    assert sorted(done.stdout.splitlines()) == [
        b"[0] %s  -" % digest,
        b"[1] 0",
        b"[2] %s  -" % digest,
    ]
    assert run_bytes(b"", *words, "cat").returncode == 0


def test_no_line_is_torn_and_no_byte_is_lost() -> None:
    script = """
import os, sys
rank = int(os.environ["RANK"])
line = bytes([65 + rank]) * 9999
for _ in range(300):
    sys.stdout.buffer.write(line + b"\\n")
"""
    done = launch("-n", "3", sys.executable, "-c", script)
    lines = done.stdout.splitlines()

    assert done.returncode == 0
    assert len(lines) == 900
    assert set(lines) == {f"[{rank}] " + chr(65 + rank) * 9999 for rank in range(3)}


def test_anything_may_be_printed() -> None:
    script = """
import os, sys
sys.stdout.buffer.write(bytes(range(256)) + b"\\0" * 5000 + b"x" * 3_000_000 + b"\\nno end")
"""
    done = run_bytes(b"", "run", "--prefix", "none", sys.executable, "-c", script)

    expected = bytes(range(256)) + b"\0" * 5000 + b"x" * 3_000_000 + b"\nno end\n"
    assert (done.returncode, done.stdout) == (0, expected)


def test_only_the_ranks_that_were_chosen_are_shown(tmp_path: Path) -> None:
    show = shell("echo $RANK; echo $RANK >&2")
    done = launch(
        "-n", "3", "--local-ranks-filter", "0,2", "--log-dir", str(tmp_path), "-t3", *show
    )
    (folder,) = tmp_path.iterdir()

    assert sorted(done.stdout.splitlines()) == ["[0] 0", "[2] 2"]
    assert "[1]" not in done.stderr
    assert (folder / "attempt_0/1/stdout.log").read_text() == "1\n", "files get all"


def test_variables_are_given_to_every_rank() -> None:
    given = ("--env", "A=1", "--env=B=x=y", "--env", "OMP_NUM_THREADS=3", "--env", "A=2")
    done = launch("-n", "2", *given, *shell("echo $A $B $OMP_NUM_THREADS"), A="0")

    assert sorted(done.stdout.splitlines()) == ["[0] 2 x=y 3", "[1] 2 x=y 3"]


def test_the_store_listens_only_where_it_is_told_to() -> None:
    show = shell('echo $UNISONO_STORE; exec "$0" store ping'), str(PROGRAM)
    done = launch("--prefix", "none", "--bind", "127.0.0.2", *show[0], show[1])

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tcp://127.0.0.2:")


def test_help_names_what_is_offered_and_nothing_else() -> None:
    text = run("run", "--help").stdout

    for option in ("--local-ranks-filter", "--bind", "--env", "--stdin", "--dry-run", "--grace"):
        assert option in text
    for absent in ("--http", "--timeline", "--secure", "tls", "shrink", "etcd", "ssh", "MIN"):
        assert absent not in text


def test_standard_error_stays_apart() -> None:
    done = launch(*shell("echo out; echo err >&2"))

    assert (done.stdout, done.stderr) == ("[0] out\n", "[0] err\n")


def test_a_prefix_is_what_one_likes() -> None:
    done = launch("--prefix", "{host}/{rank}:", *shell("echo x"))

    assert done.stdout == f"{socket.gethostname()}/0: x\n"


def test_json_is_a_document_a_line() -> None:
    done = launch("--json", "-n", "1", *shell(r"echo out; printf '\377\n' >&2; exit 3"))
    *lines, end = [json.loads(line) for line in done.stdout.splitlines()]

    assert {"rank": 0, "stream": "stdout", "line": "out", "encoding": "utf-8"} in lines
    assert {"rank": 0, "stream": "stderr", "line": "/w==", "encoding": "base64"} in lines
    assert end["schema"] == "unisono-run/1"
    assert end["exit_code"] == done.returncode == 5
    assert (end["failed"]["rank"], end["failed"]["exit_code"]) == (0, 3)
    assert sorted(end["failed"]["last_lines"]) == ["\\xff", "out"]


def test_a_flood_does_not_fill_our_memory() -> None:
    with launched(*shell("yes")) as job:
        assert job.stdout is not None
        for _ in range(1000):
            assert job.stdout.readline() == "[0] y\n"
        size = int(Path(f"/proc/{job.pid}/statm").read_text().split()[1])
        assert size * os.sysconf("SC_PAGESIZE") < 100 << 20
        job.stdout.close()

        assert job.wait(timeout=PATIENCE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("-n", "0", "true"), 2, "-n 0 is no number of ranks"),
        (("-n", "-1", "true"), 2, "-n -1 is no number of ranks"),
        (("-n", "tpu", "true"), 2, "-n tpu is no number of ranks"),
        ((), 2, "no program was given"),
        (("",), 2, "no program was given"),
        (("no-such-program",), 2, "there is no program 'no-such-program'"),
        (("no-such.py",), 2, "there is no script 'no-such.py'"),
        (("/dev/null",), 2, "cannot execute /dev/null: Permission denied"),
        (("/",), 2, "there is no program '/'"),
        (("--max-restart", "3", "true"), 2, "did you mean --max-restarts?"),
        (("--tee", "4", "true"), 2, "--tee 4 makes no sense"),
        (("--local-ranks-filter", "0,", "true"), 2, "--local-ranks-filter 0, makes no sense"),
        (("--env", "A", "true"), 2, "--env A gives no variable a value"),
        (("--env", "RANK=1", "true"), 2, "--env RANK is for the launcher to set"),
        (("--stdin", "both", "true"), 2, "--stdin"),
        (("--bind", "192.0.2.1", "true"), 3, "192.0.2.1"),
        (("--signals-to-handle", "SIGKILL", "true"), 2, "no signal that can be handled"),
        (("--nnodes", "1:2", "true"), 2, "--nnodes 1:2 is no number of nodes"),
        (("--node-rank", "1", "true"), 2, "--node-rank 1 is out of range"),
        (("--nnodes", "2", "--max-restarts", "1", "true"), 2, "--max-restarts is for one node"),
        (("--nnodes", "2", "--standalone", "true"), 2, "--standalone is for one node"),
        (("-m", "--no-python", "job"), 2, "contradict each other"),
        (("--log-dir", "/dev/null/x", "true"), 1, "cannot make the folder /dev/null/x"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], code: int, says: str) -> None:
    done = launch(*arguments)

    assert_one_line(done, code)
    assert says in done.stderr


def test_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = launch("--master-port", str(taken.getsockname()[1]), "true")

    assert_one_line(done, 3)
    assert f"in use by pid {os.getpid()}" in done.stderr


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    done = launch(
        "-n", "2", "--nnodes", "3", "--node-rank", "1", "--dry-run", "touch", str(tmp_path / "x")
    )
    plan = json.loads(done.stdout)

    assert done.returncode == 0
    assert not (tmp_path / "x").exists()
    assert plan["schema"] == "unisono-run-plan/1"
    assert plan["command"][1:] == [str(tmp_path / "x")]
    assert plan["store"] == "tcp://127.0.0.1:29500"
    assert not plan["serves_store"]
    assert [rank["environment"]["RANK"] for rank in plan["ranks"]] == ["2", "3"]


def test_files_get_what_they_are_meant_to(tmp_path: Path) -> None:
    done = launch(
        *("-n", "2", "--log-dir", str(tmp_path), "--rdzv-id", "job"),
        *("--redirects", "0:1", "--tee", "1:3"),
        *shell("echo out $RANK; echo err $RANK >&2"),
    )
    (folder,) = tmp_path.iterdir()

    assert folder.name.startswith("job_")
    assert (folder / "attempt_0/0/stdout.log").read_text() == "out 0\n"
    assert not (folder / "attempt_0/0/stderr.log").exists()
    assert (folder / "attempt_0/1/stdout.log").read_text() == "out 1\n"
    assert (folder / "attempt_0/1/stderr.log").read_text() == "err 1\n"
    assert done.stdout == "[1] out 1\n"
    assert "[0] err 0\n" in done.stderr and "[1] err 1\n" in done.stderr
    assert f"the logs are in {folder}" in done.stderr


def test_two_nodes_meet_at_the_address_of_the_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    place = ("-n", "2", "--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port)
    with launched(*place, "--node-rank", "1", str(HELLO)) as second:
        first = launch(*place, "--node-rank", "0", str(HELLO))
        out, err = second.communicate(timeout=PATIENCE)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + err
    seen = sorted((first.stdout + out).splitlines())
    assert seen == [
        f"{socket.gethostname()}:{rank}: rank {rank} of 4: the ranks add up to 6"
        for rank in range(4)
    ]
