#!/usr/bin/env bash
# More ranks than cores: 4, 8, 16 and 64 ranks, beside the MPIs where they are installed.
#
# Usage: scripts/prove.sh crowded [--rounds N]
#
#   --rounds N   rounds of each operation and size (3)
#
# Takes about ten minutes on two cores. Nothing else should run meanwhile. MPICH takes part with 4
# ranks only: its ranks do not give their cores away, and more take milliseconds for four bytes.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

rounds=3
while (($# > 0)); do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh crowded --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan crowded 5
step "build (preset release)"
build release

mkdir -p "$LOGS"
files=()
for ranks in 4 8 16 64; do
  step "$ranks ranks"
  peers=openmpi
  ((ranks > 4)) || peers=openmpi,mpich
  files+=("$LOGS/crowded-$ranks.json")
  "$BIN/unisono_compare" --ranks "$ranks" --rounds "$rounds" --peers "$peers" --json \
    --ops barrier,all_reduce,broadcast,all_gather,reduce_scatter,all_to_all \
    --sizes 4,1024,65536,1048576 >"${files[-1]}" 2>"$LOGS/crowded.log" || {
    tail -n 5 "$LOGS/crowded.log" >&2
    die "the comparison of $ranks ranks failed"
  }
done
python3 tools/growth.py "${files[@]}" | tee "$PROOF_FIGURES"
cat >>"$PROOF_FIGURES" <<'END'

Times are medians of the slowest rank, each operation with data that was just written. A ratio is the time of that
library over unisono's of the same round; above 1 unisono is ahead.
END
