#!/usr/bin/env bash
# All collectives by TCP only, of 2 and 4 ranks, beside Open MPI, MPICH and Gloo where they are installed.
#
# Usage: scripts/prove.sh tcp-compare [--rounds N] [--sizes LIST] [--ops LIST]
#
#   --rounds N     rounds of each operation and size (3)
#   --sizes LIST   bytes, with commas (8,4096,65536,1048576,67108864)
#   --ops LIST     operations, with commas (all but messages)
#
# Takes about five minutes on two cores. Nothing else should run meanwhile. MPICH takes part where
# every rank has a core: its ranks do not give theirs away.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=3
sizes=8,4096,65536,1048576,67108864
ops=barrier,all_reduce,reduce,broadcast,all_gather,gather,scatter,reduce_scatter,all_to_all
while (($# > 0)); do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
    --sizes) sizes=${2:?--sizes needs a list} && shift 2 ;;
    --ops) ops=${2:?--ops needs a list} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh tcp-compare --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan tcp-compare 3
step "build (preset release)"
build release

mkdir -p "$LOGS"
files=()
for ranks in 2 4; do
  step "$ranks ranks"
  peers=openmpi,gloo
  ((ranks > $(nproc))) || peers=openmpi,mpich,gloo
  files+=("$LOGS/tcp-compare-$ranks.json")
  "$BIN/unisono_compare" --transport tcp --ranks "$ranks" --rounds "$rounds" --peers "$peers" \
    --ops "$ops" --sizes "$sizes" --json >"${files[-1]}" 2>"$LOGS/tcp-compare.log" || {
    tail -n 5 "$LOGS/tcp-compare.log" >&2
    die "the comparison of $ranks ranks failed"
  }
done
python3 tools/beside.py "${files[@]}" | tee "$PROOF_FIGURES"
cat >>"$PROOF_FIGURES" <<'END'

Times are those of unisono, of the slowest rank, each operation with data that was just written. Below a library is its
median time over unisono's of the same round: the median of the rounds, and their range; above 1 unisono is ahead. A star
marks rows during which the machine itself was not steady. The last column is the fast tenth of Gloo's operations over
that of unisono's: Gloo has a fast and a slow mode.
END
