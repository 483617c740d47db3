#!/usr/bin/env bash
# Debian's Slurm starts unisono's ranks, by srun and by sbatch with the scripts of docs/slurm.md.
#
# Usage: scripts/prove.sh slurm
#
# Installs Slurm and MUNGE where they are missing, which needs root. The cluster is this machine as
# one node of eight processors, whatever it has; its daemons, key and state are in a folder of their
# own, and go with the proof.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

(($# == 0)) || die "unknown argument '$1'; see scripts/prove.sh slurm --help"
(($(id -u) == 0)) || die "must be root, to install Slurm and to run its daemons"

plan slurm 5
step "Slurm"
packages=(munge slurm-client slurmctld slurmd)
if dpkg-query -W -f='${db:Status-Status}\n' "${packages[@]}" 2>&1 | grep -qv '^installed$'; then
  logged apt-update apt-get -q update || true
  DEBIAN_FRONTEND=noninteractive logged apt-slurm apt-get -q -y -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "${packages[@]}"
fi
step "build and install the package"
scripts/setup.sh
build release unisono_program
install_package

scratch=$(mktemp -d)
node=$(hostname -s)
daemons=()
clean_up() {
  trap - EXIT INT TERM
  if ((${#daemons[@]} > 0)); then
    kill "${daemons[@]}" 2>/dev/null || true
    wait "${daemons[@]}" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# daemon NAME COMMAND…: runs it until the end of the proof, with a log of its own.
daemon() {
  local name=$1
  shift
  "$@" >"$LOGS/slurm-$name.log" 2>&1 </dev/null &
  daemons+=($!)
}

# await WHAT COMMAND…: until the command succeeds.
await() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "$what after a minute; see $LOGS/slurm-*.log"
    sleep 0.1
  done
}

free_port() {
  python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

is_idle() { [[ $(sinfo --noheader --format %T) == idle ]]; }

step "a cluster of one node"
chmod 755 "$scratch" # MUNGE wants to be reached by everybody
mkdir "$scratch/munge" "$scratch/state" "$scratch/spool" "$scratch/home"
(umask 077 && head -c 1024 /dev/urandom >"$scratch/munge.key")
daemon munged munged --foreground --force --key-file="$scratch/munge.key" \
  --socket="$scratch/munge/socket" --pid-file="$scratch/munge/pid" \
  --log-file="$LOGS/slurm-munged.log" --seed-file="$scratch/munge.seed"
export SLURM_CONF=$scratch/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=proof
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge/socket
CredType=cred/munge
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=8
PartitionName=proof Nodes=ALL Default=YES State=UP
END
await "MUNGE does not answer" test -S "$scratch/munge/socket"
daemon slurmctld slurmctld -D
daemon slurmd slurmd -D
await "the node does not come up" is_idle

step "programs"
cd "$scratch/home"
export HOME=$scratch/home PATH=$BIN:$VENV/bin:$PATH
# The files of the page, and a program of which one rank dies.
PYTHONPATH=$ROOT python - <<'END'
from pathlib import Path

from tests.docs.test_pages import FENCE, ROOT

for info, text in FENCE.findall((ROOT / "docs" / "slurm.md").read_text()):
    if " " in info:
        Path(info.split()[1]).write_text(text)
END
cat >dies.py <<'END'
import os

import numpy as np

import unisono

world = unisono.init()
world.barrier()
if world.rank == 1:
    os._exit(7)
try:
    world.all_reduce(np.ones(4))
except unisono.PeerDeadError as error:
    print(f"rank {world.rank} is told of {list(error.culprits)}")
END

four_ranks=$(printf 'rank %d of 4: [6. 6. 6. 6.]\n' 0 1 2 3)
export SLURM_TIMELIMIT=2 SBATCH_TIMELIMIT=2 # minutes

rows=()
# start TEXT EXPECTED COMMAND…: what it prints must be EXPECTED, in any order.
start() {
  local text=$1 expected=$2 begin printed
  shift 2
  begin=$(date +%s%N)
  printed=$("$@" 2>"$LOGS/slurm-program.log") || true
  rows+=("| $text | $((($(date +%s%N) - begin) / 1000000)) ms |")
  diff <(sort <<<"$expected") <(sort <<<"$printed") >&2 ||
    die "$text did not print what it must; see $LOGS/slurm-program.log"
  say "$text"
}
# batch SCRIPT OPTION…: what a job has printed, once it has ended.
batch() {
  sbatch --wait --quiet --nodes=1 --output=printed "${@:2}" "$1"
  cat printed
}
# shellcheck disable=SC2016 # for Markdown
start 'four tasks: `srun -n 4 python hello.py`' "$four_ranks" srun -n 4 python hello.py
# shellcheck disable=SC2016
start 'the batch script `tasks.sh`, four tasks that meet at rank 0 by TCP with a secret' \
  "$four_ranks" batch tasks.sh --ntasks-per-node=4
# shellcheck disable=SC2016
start 'the batch script `nodes.sh`, one task that is `unisono run` of two ranks' \
  $'[0] rank 0 of 2: [1. 1. 1. 1.]\n[1] rank 1 of 2: [1. 1. 1. 1.]' batch nodes.sh
start 'three tasks of which one dies: the others name it' \
  $'rank 0 is told of [1]\nrank 2 is told of [1]' srun -n 3 python dies.py

step "figures"
{
  echo "| with $(srun --version) of Debian | time |"
  echo "|---|---|"
  printf '%s\n' "${rows[@]}"
  # shellcheck disable=SC2016 # for Markdown
  printf '\nOf a batch script it is the time of `sbatch --wait`, which looks every few seconds.\n'
} | tee "$PROOF_FIGURES"
