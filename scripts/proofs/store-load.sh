#!/usr/bin/env bash
# 10,000 connections to one store server, 100 of them working beside 100 hostile ones.
#
# Usage: scripts/prove.sh store-load [--connections N] [--hostile N] [--seconds S]
#
#   --connections N   idle ones (10000)
#   --hostile N       hostile ones (100)
#   --seconds S       of honest work, with and without them (5)

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

options=()
while (($# > 0)); do
  case $1 in
    --connections | --hostile | --seconds) options+=("$1" "${2:?$1 needs a number}") && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh store-load --help" ;;
  esac
done

scripts/setup.sh --no-pypi
plan store-load 2
step "build (preset release)"
build release

step "10,000 connections, honest and hostile work"
mkdir -p "$LOGS"
"$BIN/store_load" --judge --json "${options[@]}" >"$LOGS/store-load.json"
tail -n 1 "$LOGS/store-load.json" | python3 tools/proofs.py table | tee "$PROOF_FIGURES"
