#!/usr/bin/env bash
# Histories of real store servers under pauses and cuts: every answer fits into one order.
#
# Usage: scripts/prove.sh linearizability [--histories N] [--from SEED] [--clients C] [--calls N]
#                                         [--seconds S]
#
#   --histories N   how many (500); one that stays undecided is a failure
#   --from SEED     the first one (1); a failure names its seed
#   --clients C     at once (16), on five keys and queues
#   --calls N       of each client (2000)
#   --seconds S     begins no further history after so long, and is content with those that were
#                   made; without it, fewer than --histories within 3000 s are a failure

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

options=(--histories 500)
while (($# > 0)); do
  case $1 in
    --histories | --from | --clients | --calls | --seconds)
      options+=("$1" "${2:?$1 needs a number}") && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh linearizability --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan linearizability 2
step "build (preset release)"
build release store_linearizability

step "histories"
mkdir -p "$LOGS"
"$BIN/store_linearizability" "${options[@]}" >"$LOGS/linearizability.json" ||
  die "an answer fits into no order, or not all was decided; see above"
python3 tools/proofs.py table <"$LOGS/linearizability.json" | tee "$PROOF_FIGURES"
