"""`unisono doctor`: what it says of machines on which something stands in the way."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.netlab import two_hosts
from tests.cli.program import NEEDS_PROGRAM, PATIENCE, PROGRAM, ROOT, environment, run

pytestmark = NEEDS_PROGRAM

VERSION = (ROOT / "VERSION").read_text().strip()
CHECKS = (
    "version, processor, vectors, cores, memory nodes, cpu limit, threads, memory, shared memory,"
    " /dev/shm, locked memory, pulling, pidfd, huge pages, open files, processes, loopback,"
    " interfaces, ipv6, proxies, host name, ports, variables, python, others"
).split(", ")
NEEDS_NAMESPACES = pytest.mark.skipif(
    shutil.which("unshare") is None or os.geteuid() != 0, reason="namespaces need root"
)


def examined(
    *arguments: str,
    around: tuple[str, ...] = (),
    limit: Callable[[], None] | None = None,
    **env: str,
) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and what was found by the name of each check."""
    done = subprocess.run(
        [*around, str(PROGRAM), "doctor", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(**env),
        preexec_fn=limit,
        check=False,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "unisono-doctor/1"
    return done.returncode, {each["check"]: each for each in document["checks"]}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Makes the /proc and /sys of a machine that has these files, and is well otherwise."""

    def make(files: dict[str, str]) -> Path:
        usual = {
            "proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n",
            "proc/self/cgroup": "0::/job\n",
            "proc/self/status": "CapEff:\t0000000000000000\n",
            "proc/sys/kernel/yama/ptrace_scope": "0\n",
            "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        }
        for name, text in {**usual, **files}.items():
            path = tmp_path / "machine" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "machine"

    return make


def test_a_host_that_lets_tcp_through_is_well_whether_or_not_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        _, found = examined("--hosts", "localhost,127.0.0.2", "--port", port)

    assert list(found) == [*CHECKS, "host localhost", "host 127.0.0.2"]
    assert (found["host localhost"]["state"], found["host 127.0.0.2"]["state"]) == ("ok", "ok")
    assert f"listens at port {port}" in found["host localhost"]["what"]
    assert "where nobody listens" in found["host 127.0.0.2"]["what"]


def test_a_host_that_has_no_address_fails_with_a_remedy() -> None:
    code, found = examined("--hosts", "no-such-host.invalid")

    assert code == 1
    assert found["host no-such-host.invalid"]["state"] == "fail"
    assert "/etc/hosts" in found["host no-such-host.invalid"]["remedy"]


@NEEDS_NAMESPACES
def test_a_host_to_which_no_way_leads_fails() -> None:
    code, found = examined("--hosts", "192.0.2.1", around=("unshare", "--net"))

    assert code == 1
    assert "no way leads to 192.0.2.1" in found["host 192.0.2.1"]["what"]


def test_a_host_that_is_silent_fails_and_its_neighbour_does_not() -> None:
    with two_hosts() as (first, second):
        silent = "10.77.0.9"
        code, found = examined("--hosts", f"{second.address},{silent}", around=first.enter)

    assert code == 1
    assert found[f"host {second.address}"]["state"] == "ok"
    assert f"from {first.address}" in found[f"host {second.address}"]["what"]
    assert "does not let TCP through" in found[f"host {silent}"]["what"]
    assert "firewall" in found[f"host {silent}"]["remedy"]


def job_of(ranks: int, *command: str, **env: str) -> dict[str, str]:
    """What rank 0 of a job says of all; nobody else prints anything."""
    done = run("run", "-n", str(ranks), "--prefix", "none", *command, **env)
    document = json.loads(done.stdout)
    (job,) = [each for each in document["checks"] if each["check"] == "job"]
    return {name: str(value) for name, value in job.items()}


def test_the_ranks_of_a_job_are_asked_and_one_tells() -> None:
    job = job_of(3, "--no-python", str(PROGRAM), "doctor", "--net", "--json")

    assert job["state"] == "ok"
    assert job["what"].startswith(f"3 ranks on {socket.gethostname()} reach each other")


SKEW = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, id, now);
  now->tv_sec += id == CLOCK_REALTIME ? 1000 : 0;
  return (int)result;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_clock_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "skew.c").write_text(SKEW)
    library = tmp_path / "skew.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "skew.c")]
    subprocess.run(command, timeout=PATIENCE, check=True)
    script = f'[ "$RANK" = 0 ] || export LD_PRELOAD={library}; exec {PROGRAM} doctor --net --json'
    job = job_of(2, "sh", "-c", script)

    assert job["state"] == "warn"
    ahead = re.search(r"the clock of (\S+) is (\d+) s ahead of that of", job["what"])
    assert ahead and ahead[1] == socket.gethostname()
    assert 990 <= int(ahead[2]) <= 1010
    assert "NTP" in job["remedy"]


def test_a_world_of_one_has_nobody_to_ask() -> None:
    _, found = examined("--net")

    assert found["job"]["state"] == "warn"
    assert "srun" in found["job"]["remedy"]


def test_looks_at_everything_and_says_what_to_do_where_it_is_not_well() -> None:
    _, found = examined()

    assert list(found) == CHECKS
    for each in found.values():
        assert each["what"]
        assert bool(each["remedy"]) == (each["state"] != "ok"), each


def test_takes_about_a_second_at_most() -> None:
    begin = time.monotonic()
    examined()

    assert time.monotonic() - begin < 10  # of a busy machine


def test_a_line_for_each() -> None:
    lines = run("doctor", "--color", "never").stdout.splitlines()

    assert len(lines) == len(CHECKS)
    for line, name in zip(lines, CHECKS, strict=True):
        state = line[:4].strip()
        assert state in ("ok", "warn", "fail")
        assert line[6:].startswith(name)
        assert (" — " in line) == (state != "ok")


def test_says_less_when_asked_to(machine: Callable[[dict[str, str]], Path]) -> None:
    root = machine({"proc/sys/kernel/yama/ptrace_scope": "3\n"})
    lines = run("doctor", "-q", "--root", str(root)).stdout.splitlines()

    assert any(line.startswith("warn  pulling") for line in lines)
    assert not any(line.startswith("ok") for line in lines)


# What is the matter, and a word of what is said of it.
PROBLEMS = {
    "little memory": ("memory", "warn", {"proc/meminfo": "MemAvailable: 100000 kB\n"}, "97 MiB"),
    "no memory": ("memory", "fail", {"proc/meminfo": "MemAvailable: 10000 kB\n"}, "9 MiB"),
    "memory of a container": (
        "memory",
        "warn",
        {
            "sys/fs/cgroup/job/memory.max": f"{200 << 20}\n",
            "sys/fs/cgroup/job/memory.current": f"{100 << 20}\n",
        },
        "100 MiB",
    ),
    "time of a container": (
        "cpu limit",
        "warn",
        {"sys/fs/cgroup/job/cpu.max": "50000 100000\n"},
        "0.50 cores",
    ),
    "nobody may read": (
        "pulling",
        "warn",
        {"proc/sys/kernel/yama/ptrace_scope": "1\n"},
        "ptrace_scope is 1",
    ),
    "few ports": (
        "ports",
        "warn",
        {"proc/sys/net/ipv4/ip_local_port_range": "40000 40099\n"},
        "100 ports",
    ),
    "ports that wait": (
        "ports",
        "warn",
        {"proc/net/sockstat": "sockets: used 9\nTCP: inuse 1 orphan 0 tw 20000 alloc 2 mem 1\n"},
        "20000 in TIME_WAIT",
    ),
    "no python": ("python", "warn", {}, "no python3"),
    "python without the package": (
        "python",
        "warn",
        {"bin/python3": "", "lib/python3.11/site-packages/numpy-2.0.dist-info/METADATA": ""},
        "no unisono, numpy 2.0, no torch",
    ),
    "another version": (
        "python",
        "warn",
        {"bin/python3": "", "lib/python3.11/site-packages/unisono-0.0.1.dist-info/METADATA": ""},
        "unisono 0.0.1",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_finds_a_problem(problem: str, machine: Callable[[dict[str, str]], Path]) -> None:
    check, state, files, says = PROBLEMS[problem]
    root = machine(files)
    if "bin/python3" in files:
        (root / "bin/python3").chmod(0o755)

    code, found = examined("--root", str(root))

    assert found[check]["state"] == state
    assert says in found[check]["what"]
    assert code == (1 if any(each["state"] == "fail" for each in found.values()) else 0)
    if state == "fail":
        assert code == 1


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/sys/kernel/yama/ptrace_scope": "1\n", "proc/self/status": "CapEff:\t00080000\n"},
        {
            "bin/python3": "",
            f"lib/python3.11/site-packages/unisono-{VERSION}.dist-info/METADATA": "",
            "lib/python3.11/site-packages/torch-2.13.0.dist-info/METADATA": "",
        },
    ],
    ids=["nothing special", "a debugger", "python"],
)
def test_a_machine_that_is_well(
    files: dict[str, str], machine: Callable[[dict[str, str]], Path]
) -> None:
    root = machine(files)
    _, found = examined("--root", str(root))

    for check in ("memory", "cpu limit", "pulling", "ports"):
        assert found[check]["state"] == "ok", found[check]
    if files.get("bin/python3") is not None:
        (root / "bin/python3").chmod(0o755)
        _, found = examined("--root", str(root))
        assert found["python"]["state"] == "ok"
        assert "torch 2.13.0" in found["python"]["what"]


def test_finds_limits_of_the_process() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    code, found = examined(limit=limit)

    assert code == 1
    assert found["open files"]["state"] == "warn"
    assert found["processes"]["state"] == "warn"
    assert found["shared memory"]["state"] == "fail"
    assert "EFBIG" in found["shared memory"]["what"]


def test_finds_that_there_is_one_core() -> None:
    _, found = examined(limit=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))

    assert found["cores"]["state"] == "warn"
    assert found["cores"]["what"].startswith("1 of ")


def test_names_variables_that_nobody_reads() -> None:
    _, found = examined(UNISONO_TIMEOUTT="3", UNISONO_TIMEOUT="3")

    assert found["variables"]["state"] == "warn"
    assert "UNISONO_TIMEOUTT" in found["variables"]["what"]
    assert "did you mean UNISONO_TIMEOUT?" in found["variables"]["remedy"]


def test_finds_an_interface_that_is_not_there() -> None:
    code, found = examined(UNISONO_IFNAME="nothing0")

    assert code == 1
    assert found["interfaces"]["state"] == "fail"
    assert "nothing0" in found["interfaces"]["what"]


@NEEDS_NAMESPACES
def test_finds_that_there_is_no_network() -> None:
    code, found = examined(around=("unshare", "--net"))

    assert code == 1
    assert found["loopback"]["state"] == "fail"
    assert "ip link set lo up" in found["loopback"]["remedy"]
    assert found["interfaces"]["state"] == "warn"


@NEEDS_NAMESPACES
def test_finds_that_nobody_knows_the_name_of_the_host() -> None:
    script = 'hostname nobody-knows.invalid && exec "$@"'
    _, found = examined(around=("unshare", "--uts", "--net", "sh", "-c", script, "sh"))

    assert found["host name"]["state"] == "warn"
    assert "nobody-knows.invalid" in found["host name"]["what"]
    assert "/etc/hosts" in found["host name"]["remedy"]


def test_more_threads_than_cores_are_noticed() -> None:
    _, found = examined(OMP_NUM_THREADS="100000")
    assert found["threads"]["state"] == "warn"
    assert "OMP_NUM_THREADS=100000" in found["threads"]["what"]
    assert examined(OMP_NUM_THREADS="1")[1]["threads"]["state"] == "ok"


def test_a_proxy_is_said_to_be_of_no_use() -> None:
    _, found = examined(https_proxy="http://10.0.0.1:3128")

    assert found["proxies"]["what"].startswith("https_proxy: not used")
