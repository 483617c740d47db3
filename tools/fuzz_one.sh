#!/usr/bin/env bash
# Runs one fuzz target, already built, from its corpus and what earlier runs have added to it.
#
# Usage: tools/fuzz_one.sh TARGET SECONDS

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
cd "$ROOT"

target=${1:?a target, such as server}
seconds=${2:?how many seconds}
findings=build/fuzz/findings
own=build/fuzz/corpus/$target
log=$LOGS/fuzz-$target.log
mkdir -p "$findings" "$own" "$LOGS"
"build/fuzz/bin/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$findings/$target-" "$own" "fuzz/corpus/$target" \
  >"$log" 2>&1 || {
  tail -n 40 "$log"
  die "$target found something; to see it again: build/fuzz/bin/fuzz_$target $findings/$target-…"
}
sed -n "s/^stat::number_of_executed_units: */fuzz: $target, inputs tried: /p" "$log"
