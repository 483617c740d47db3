#!/usr/bin/env bash
# Every fuzz target, for long, from its corpus and what earlier runs have added to it.
#
# Usage: scripts/prove.sh fuzz [--seconds S]
#
#   --seconds S   for each target (600); eight run at a time on two cores

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

seconds=600
while (($# > 0)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh fuzz --help" ;;
  esac
done

scripts/setup.sh checks --no-pypi
plan fuzz 1
step "$seconds s for each target"
FUZZ_SECONDS=$seconds tools/check.sh fuzz | tee "$LOGS/fuzz.log"
{
  echo "| target | inputs tried | findings |"
  echo "|---|---|---|"
  sed -n 's/^fuzz: \([a-z_]*\), inputs tried: \([0-9]*\)$/| \1 | \2 | 0 |/p' "$LOGS/fuzz.log" | sort
} >"$PROOF_FIGURES"
