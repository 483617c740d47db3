#!/usr/bin/env bash
# The store's server in simulated time, with seeded delays, cuts, pauses, crashes and restarts.
#
# Usage: scripts/prove.sh store-simulation [--seeds N] [--from SEED]
#
#   --seeds N     how many seeds (100000)
#   --from SEED   the first one (1); a failure names its seed, to be run again

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

seeds=100000
from=1
while (($# > 0)); do
  case $1 in
    --seeds) seeds=${2:?--seeds needs a number} && shift 2 ;;
    --from) from=${2:?--from needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh store-simulation --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan store-simulation 2
step "build (preset release)"
build release

step "$seeds seeds from $from"
mkdir -p "$LOGS"
"$BIN/store_simulation" --seeds "$seeds" --from "$from" --json >"$LOGS/store-simulation.json" ||
  die "a promise was broken, or a seed undecided; to see it again: build/release/bin/store_simulation --seeds 1 --from SEED"
tail -n 1 "$LOGS/store-simulation.json" | python3 tools/proofs.py table | tee "$PROOF_FIGURES"
