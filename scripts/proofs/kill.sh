#!/usr/bin/env bash
# Ranks of a group are killed at random moments, again and again; the others learn it by name.
#
# Usage: scripts/prove.sh kill [--rounds N] [--seed S]
#
#   --rounds N   how many rounds (1000)
#   --seed S     of the random choices (the time); a failure names it, to be run again

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=1000
seed=$(date +%s)
rounds_and_seed kill "$@"

scripts/setup.sh --no-pypi
plan kill 2
step "build (preset release)"
build release
[[ -x $BIN/group_kill ]] || die "build/release/bin/group_kill was not built"

step "$rounds rounds, seed $seed"
mkdir -p "$LOGS"
"$BIN/group_kill" --rounds "$rounds" --seed "$seed" --judge --json 2>&1 >"$LOGS/kill.json" |
  tee "$LOGS/kill.log" | moving || {
  tail -n 30 "$LOGS/kill.log" >&2
  die "failed; to see it again: scripts/prove.sh kill --rounds $rounds --seed $seed"
}
tail -n 1 "$LOGS/kill.json" | python3 tools/proofs.py table | tee "$PROOF_FIGURES"
