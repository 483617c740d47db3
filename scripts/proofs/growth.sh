#!/usr/bin/env bash
# How groups grow: from 2 to 128 ranks, beside Open MPI, MPICH and Gloo where they are installed.
#
# Usage: scripts/prove.sh growth [--rounds N] [--most RANKS]
#
#   --rounds N     rounds of each size (3)
#   --most RANKS   the largest group (128)
#
# Takes about ten minutes. Nothing else should run meanwhile.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=3
most=128
while (($# > 0)); do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
    --most) most=${2:?--most needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh growth --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan growth 8
step "build (preset release)"
build release

mkdir -p "$LOGS"
files=()
for ranks in 2 4 8 16 32 64 128; do
  ((ranks <= most)) || continue
  step "$ranks ranks"
  files+=("$LOGS/growth-$ranks.json")
  "$BIN/unisono_compare" --ranks "$ranks" --rounds "$rounds" --json \
    --ops barrier,all_reduce,all_gather,broadcast --sizes 4,1024,65536,1048576 \
    >"${files[-1]}" 2>"$LOGS/growth.log" || {
    tail -n 5 "$LOGS/growth.log" >&2
    die "the comparison of $ranks ranks failed"
  }
done
python3 tools/growth.py "${files[@]}" | tee "$PROOF_FIGURES"
cat >>"$PROOF_FIGURES" <<'END'

A rank's memory is its own and its share of what the ranks have in common, programs and libraries
included, as soon as all have met. Times are medians of the slowest rank.
END
