#!/usr/bin/env bash
# Every fault that a group of one host must survive: who is told what, and how soon.
#
# Usage: scripts/prove.sh faults [--rounds N] [--seed S]
#
#   --rounds N   how often each fault happens (50); those that last long happen less often
#   --seed S     of the random choices (the time); a failure names it, to be run again

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=50
seed=$(date +%s)
rounds_and_seed faults "$@"

scripts/setup.sh --no-pypi
plan faults 2
step "build (preset release)"
build release fault_matrix
[[ -x $BIN/fault_matrix ]] || die "build/release/bin/fault_matrix was not built"

step "$rounds rounds, seed $seed"
mkdir -p "$LOGS"
"$BIN/fault_matrix" --rounds "$rounds" --seed "$seed" 2>&1 >"$LOGS/faults.md" |
  tee "$LOGS/faults.log" | moving || {
  cat "$LOGS/faults.md" >&2
  die "failed; to see it again: scripts/prove.sh faults --rounds $rounds --seed $seed"
}
tee "$PROOF_FIGURES" <"$LOGS/faults.md"
