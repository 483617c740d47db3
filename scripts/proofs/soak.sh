#!/usr/bin/env bash
# Worlds are made, worked in and ended, with losses, for a long time; nothing is wrong or piles up.
#
# Usage: scripts/prove.sh soak [--minutes N] [--seed S]
#
#   --minutes N  how long (30)
#   --seed S     of the random choices (the time); a failure names it and the round, to be run
#                again: build/release/bin/group_soak --seed S --round R

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

minutes=30
seed=$(date +%s)
while (($# > 0)); do
  case $1 in
    --minutes) minutes=${2:?--minutes needs a number} && shift 2 ;;
    --seed) seed=${2:?--seed needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh soak --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan soak 2
step "build (preset release)"
build release group_soak
[[ -x $BIN/group_soak ]] || die "build/release/bin/group_soak was not built"

step "$minutes minutes, seed $seed"
mkdir -p "$LOGS"
"$BIN/group_soak" --minutes "$minutes" --seed "$seed" --json 2>&1 >"$LOGS/soak.json" |
  tee "$LOGS/soak.log" | moving || {
  tail -n 30 "$LOGS/soak.log" >&2
  die "failed; to see it again: scripts/prove.sh soak --minutes $minutes --seed $seed"
}
tail -n 1 "$LOGS/soak.json" | python3 tools/proofs.py table | tee "$PROOF_FIGURES"
