#!/usr/bin/env bash
# What it takes to make a group by TCP: time, memory and connections of up to 256 ranks, beside Gloo's.
#
# Usage: scripts/prove.sh tcp-create [--rounds N] [--most RANKS]
#
#   --rounds N     groups of each size, of which the median counts (3)
#   --most RANKS   the largest group (256)
#
# Takes about ten minutes on two cores. Nothing else should run meanwhile. Gloo's ranks have a
# connection to each other: 256 of them need 65,280 descriptors in all.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=3
most=256
while (($# > 0)); do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
    --most) most=${2:?--most needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh tcp-create --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan tcp-create 4
step "build (preset release)"
build release

mkdir -p "$LOGS"
files=()
for ranks in 16 64 256; do
  ((ranks <= most)) || continue
  step "$ranks ranks"
  for ((round = 1; round <= rounds; ++round)); do
    files+=("$LOGS/tcp-create-$ranks-$round.json")
    "$BIN/unisono_compare" --transport tcp --peers gloo --ranks "$ranks" --rounds 1 --json \
      --ops all_reduce --sizes 4 >"${files[-1]}" 2>"$LOGS/tcp-create.log" || {
      tail -n 5 "$LOGS/tcp-create.log" >&2
      die "the groups of $ranks ranks failed"
    }
  done
done
python3 tools/creation.py "${files[@]}" | tee "$PROOF_FIGURES"
cat >>"$PROOF_FIGURES" <<'END'

The time is that from the start of the first process until the last rank has its group; a rank's memory is its own and
its share of what the ranks have in common, programs and libraries included. unisono makes connections when they are
first used: the first all_reduce, of 4 bytes, is shown beside it, with what a rank has after it. Medians of the rounds; in
each all ranks of both libraries are there, and those of the other one sleep.
END
