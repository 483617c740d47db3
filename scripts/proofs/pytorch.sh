#!/usr/bin/env bash
# PyTorch's own tests of torch.distributed over unisono, and over gloo: 3, 4 and 8 ranks, and with its checks on.
#
# Usage: scripts/prove.sh pytorch
#
# Takes about a quarter of an hour on two cores. gloo's own failures are counted, and are no failure of
# the proof.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"
(($# == 0)) || die "unknown argument '$1'; see scripts/prove.sh pytorch --help"

scripts/setup.sh
plan pytorch 8
step "build and install the package"
install_package

rows=()
# count BACKEND RANKS DEBUG: runs the cases, and keeps the counts.
count() {
  local name=pytorch-$1-$2-$3 status=0
  step "$1, $2 ranks, debug $3"
  TORCH_DISTRIBUTED_DEBUG=$3 logged "$name" "$VENV/bin/python" -m tests.pytorch.run --backend "$1" \
    --ranks "$2" --json "$LOGS/$name.json" || status=$?
  rows+=("$LOGS/$name.json")
  ((status == 0)) || [[ $1 == gloo ]] || die "not all that should pass does; see $LOGS/$name.log"
}
for ranks in 3 4 8; do count unisono "$ranks" OFF; done
count unisono 4 DETAIL
for ranks in 4 8; do count gloo "$ranks" OFF; done
count gloo 4 DETAIL
"$VENV/bin/python" - "${rows[@]}" <<'END' | tee "$PROOF_FIGURES"
import json, sys

print("| backend | ranks | `TORCH_DISTRIBUTED_DEBUG` | ran | passed | time, s | failed |")
print("|---|---|---|---|---|---|---|")
for path in sys.argv[1:]:
    row = json.load(open(path))
    print(f"| {row['backend']} | {row['ranks']} | {row['debug']} | {row['ran']} | {row['passed']} "
          f"| {row['seconds']} | {', '.join(row['failed'])} |")
END
