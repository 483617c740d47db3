"""The pages for clusters: their scripts run with a pretended Slurm, their manifests are read.

The Slurm has two nodes, which are this host under two names; its batch jobs run at once. The blocks
of Kubernetes cannot be run: what its pods would start is looked at with --dry-run, and shell is
only parsed.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import NEEDS_PROGRAM, PATIENCE, ROOT, run
from tests.docs.test_pages import FENCE, environment, run_page

pytestmark = NEEDS_PROGRAM

SBATCH = """#!/bin/bash
set -eu
tasks=$(sed -nE 's/^#SBATCH --ntasks-per-node=//p' "$1")
cores=$(sed -nE 's/^#SBATCH --cpus-per-task=//p' "$1")
export SLURM_JOB_NODELIST='node[0-1]' SLURM_NNODES=2
export SLURM_NTASKS_PER_NODE=$tasks SLURM_CPUS_PER_TASK=${cores:-1}
bash "$1" >"slurm-$SLURM_JOB_ID.out" 2>&1
echo "Submitted batch job $SLURM_JOB_ID"
"""

# Each node has a host id of its own, so that its ranks reach those of the other only by TCP. What a
# task prints is kept apart until all have ended, since some write a line and its end separately.
SRUN = """#!/bin/bash
set -eu
while [[ $1 == --* ]]; do
  shift
done
export SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=$SLURM_NNODES
export SLURM_STEP_NUM_TASKS=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))
tasks=()
for ((task = 0; task < SLURM_STEP_NUM_TASKS; ++task)); do
  node=$((task / SLURM_NTASKS_PER_NODE))
  SLURM_PROCID=$task SLURM_NODEID=$node UNISONO_HOST_ID=node$node "$@" >"output.$task" 2>&1 &
  tasks+=($!)
done
status=0
for task in "${tasks[@]}"; do
  wait "$task" || status=$?
done
cat output.*
rm output.*
exit "$status"
"""

SCONTROL = """#!/bin/bash
[[ "$*" == "show hostnames node[0-1]" ]] && printf 'localhost\\nlocalhost\\n'
"""


def free_port() -> int:
    """One of those that the scripts choose from."""
    for port in range(20000, 30000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")


def test_the_scripts_for_slurm_do_what_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("unisono")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = environment()
    env["PATH"] = f"{tools}:{env['PATH']}"
    env["HOME"] = str(tmp_path)
    env["SLURM_JOB_ID"] = str(free_port())  # the port that the scripts make of it is the same

    run_page(ROOT / "docs" / "slurm.md", tmp_path, env)

    assert not list(tmp_path.glob("*.secret"))


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    found = [text for info, text in FENCE.findall(page) if info.partition(" ")[0] == language]
    assert found
    return found


def test_the_commands_for_kubernetes_are_shell() -> None:
    for text in blocks("sh"):
        subprocess.run(["bash", "-n"], input=text, text=True, timeout=PATIENCE, check=True)


def manifests() -> dict[str, Any]:
    """By their kind."""
    yaml = pytest.importorskip("yaml")
    (text,) = blocks("yaml")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def expanded(command: list[str], index: int) -> list[str]:
    """What a pod with this number would start."""
    known = {"$(JOB_COMPLETION_INDEX)": str(index), "$(POD_IP)": f"10.0.0.{index + 1}"}
    words = []
    for word in command:
        for name, value in known.items():
            word = word.replace(name, value)
        assert "$" not in word
        words.append(word)
    return words


def test_the_pods_would_start_the_ranks_of_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = manifests()["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    plans = []
    for index in range(job["completions"]):
        words = expanded(container["command"], index)
        assert words[:2] == ["unisono", "run"]
        planned = run("run", "--dry-run", *words[2:])
        assert planned.returncode == 0, planned.stderr
        plans.append(json.loads(planned.stdout))

    assert [plan["serves_store"] for plan in plans] == [True, False]
    assert {plan["store"] for plan in plans} == {"tcp://train-0.train:29500"}
    assert [rank["rank"] for plan in plans for rank in plan["ranks"]] == list(range(8))


def test_the_parts_for_kubernetes_fit_together() -> None:
    found = manifests()
    job, service = found["Job"]["spec"], found["Service"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = pod["volumes"]
    (mount,) = container["volumeMounts"]
    env = {each["name"]: each.get("value") for each in container["env"]}

    assert job["completions"] == job["parallelism"]
    assert service["spec"]["selector"] == job["template"]["metadata"]["labels"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert volume["secret"]["defaultMode"] == 0o400
    assert mount["name"] == volume["name"]
    assert env["UNISONO_AUTH_SECRET_FILE"] == f"{mount['mountPath']}/secret"
