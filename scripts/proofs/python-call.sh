#!/usr/bin/env bash
# What a small all_reduce costs from Python above the same call from C++, in instructions and time.
#
# Usage: scripts/prove.sh python-call
#
# Instructions are counted by valgrind, so they are the same whatever else runs on the machine.
# Times are the least of seven runs, in turns.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

(($# == 0)) || die "unknown argument '$1'; see scripts/prove.sh python-call --help"
scripts/setup.sh
command -v valgrind >/dev/null || die "valgrind is missing: apt-get install valgrind"
plan python-call 4
step "build (preset release)"
build release
step "Python package, into .venv"
install_package

# call KIND CALLS: from C++ (cpp), or from Python on an array of a kind.
call() {
  if [[ $1 == cpp ]]; then
    "${@:3}" "$BIN/call_cost" public "$2"
  else
    "${@:3}" "$VENV/bin/python" bench/call_python.py "$1" "$2"
  fi
}
# instructions KIND CALLS: of a whole run.
instructions() {
  PYTHONHASHSEED=0 call "$1" "$2" valgrind --tool=callgrind --callgrind-out-file=/dev/null 2>&1 \
    >/dev/null | sed -n 's/.*refs: *//p' | tr -d ,
}

kinds=(cpp numpy async)
if installed torch; then
  kinds+=(torch)
fi
declare -A counted least
step "instructions"
for kind in "${kinds[@]}"; do
  counted[$kind]=$((($(instructions "$kind" 6000) - $(instructions "$kind" 2000)) / 4000))
done
step "time"
for round in 1 2 3 4 5 6 7; do
  for kind in "${kinds[@]}"; do
    least[$kind]=$(printf '%s\n' "${least[$kind]:-1e9}" "$(call "$kind" 200000)" | sort -g | head -n 1)
  done
  say "round $round of 7"
done
{
  echo "| a small all_reduce in a group of one | instructions | ns | above C++ |"
  echo "|---|---|---|---|"
  for kind in "${kinds[@]}"; do
    above=$(awk "BEGIN {printf \"%.0f\", ${least[$kind]} - ${least[cpp]}}")
    echo "| $kind | ${counted[$kind]} | ${least[$kind]} | $above ns |"
  done
} | tee "$PROOF_FIGURES"
