#!/usr/bin/env bash
# All interleavings of the protocols in shared memory, within bounds, with a kill at every point.
#
# Usage: scripts/prove.sh explore [--most N] [--seeds N] [--from SEED]
#
#   --most N      schedules of a protocol without a kill, and as many with one, at most (1000000)
#   --seeds N     runs by chance of each protocol, besides (20000)
#   --from SEED   the first of them (1)

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

most=1000000
seeds=20000
from=1
while (($# > 0)); do
  case $1 in
    --most) most=${2:?--most needs a number} && shift 2 ;;
    --seeds) seeds=${2:?--seeds needs a number} && shift 2 ;;
    --from) from=${2:?--from needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh explore --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan explore 2
step "build (preset release)"
build release shm_explore

step "up to $most schedules of each protocol, and $seeds by chance"
mkdir -p "$LOGS"
"$BIN/shm_explore" --thorough --most "$most" --seeds "$seeds" --from "$from" | tee "$PROOF_FIGURES" ||
  die "a promise was broken"
cat >>"$PROOF_FIGURES" <<'END'

An unusual thing is a rank that runs out of turn, a sleep that ends early, or a store that is seen
late. "In part": as many as `--most` allows, the last ones first.
END
