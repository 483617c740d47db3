#!/usr/bin/env bash
# What the public interface adds to the algorithm of a small all_reduce, in instructions and in time.
#
# Usage: scripts/prove.sh call-cost
#
# Instructions are counted by valgrind, so they are the same whatever else runs on the machine.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

(($# == 0)) || die "unknown argument '$1'; see scripts/prove.sh call-cost --help"
scripts/setup.sh --no-pypi
command -v valgrind >/dev/null || die "valgrind is missing: apt-get install valgrind"
plan call-cost 3
step "build (preset release)"
build release

# instructions WHAT CALLS: of a whole run.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$BIN/call_cost" "$1" "$2" 2>&1 >/dev/null |
    sed -n 's/.*refs: *//p' | tr -d ,
}
# per_call WHAT: without start and end of the program.
per_call() {
  echo $((($(instructions "$1" 20000) - $(instructions "$1" 10000)) / 10000))
}
# least WHAT: nanoseconds per call, the least of seven runs.
least() {
  for _ in 1 2 3 4 5 6 7; do "$BIN/call_cost" "$1" 1000000; done | sort -g | head -n 1
}

step "instructions"
public=$(per_call public)
algorithm=$(per_call algorithm)
step "time"
public_ns=$(least public)
algorithm_ns=$(least algorithm)
tee "$PROOF_FIGURES" <<END
| a small all_reduce in a group of one | instructions | ns |
|---|---|---|
| the algorithm | $algorithm | $algorithm_ns |
| through the public interface | $public | $public_ns |
| difference | $((public - algorithm)) | $(awk "BEGIN {printf \"%.1f\", $public_ns - $algorithm_ns}") |
END
