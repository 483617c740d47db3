#!/usr/bin/env bash
# Clients and servers of the store are killed at random moments, again and again; nobody hangs.
#
# Usage: scripts/prove.sh store-kill [--rounds N] [--seed S]
#
#   --rounds N   how many rounds (1000)
#   --seed S     of the random choices (the time); a failure names it, to be run again
#
# No call may end later than is promised, which needs a machine that does nothing else.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=1000
seed=$(date +%s)
rounds_and_seed store-kill "$@"

scripts/setup.sh --no-pypi
plan store-kill 2
step "build (preset release)"
build release
[[ -x $BIN/store_stress ]] || die "build/release/bin/store_stress was not built"

step "$rounds rounds, seed $seed"
mkdir -p "$LOGS"
"$BIN/store_stress" --rounds "$rounds" --seed "$seed" --judge --json 2>&1 >"$LOGS/store-kill.json" |
  tee "$LOGS/store-kill.log" | moving || {
  tail -n 30 "$LOGS/store-kill.log" >&2
  die "failed; to see it again: scripts/prove.sh store-kill --rounds $rounds --seed $seed"
}
tail -n 1 "$LOGS/store-kill.json" | python3 tools/proofs.py table | tee "$PROOF_FIGURES"
