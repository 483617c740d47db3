#!/usr/bin/env bash
# How much of the code that reads what others have written is reached by the fuzz targets' corpora.
#
# Usage: scripts/prove.sh fuzz-coverage [--least PERCENT]
#
#   --least PERCENT   of the lines of each file (95); less is a failure

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

least=95
while (($# > 0)); do
  case $1 in
    --least) least=${2:?--least needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh fuzz-coverage --help" ;;
  esac
done

# What parses: commands, replies, files, addresses, options, and what other processes say or write.
PARSERS=(
  cli/number.cpp
  cli/verbs/dump_format.cpp
  src/base/bytes.hpp
  src/base/log_levels.cpp
  src/life/abort_record.cpp
  src/net/address.cpp
  src/net/handshake.cpp
  src/store/decimal.cpp
  src/store/endpoint.cpp
  src/store/file/record_log.cpp
  src/store/rendezvous_url.cpp
  src/store/tcp/codec.cpp
  src/store/tcp/connection.cpp
  src/store/tcp/dial.cpp
  src/store/tcp/entrance.cpp
  src/transport/mesh/wire.cpp
  src/transport/root_record.cpp
)

scripts/setup.sh checks --no-pypi
for tool in llvm-profdata-14 llvm-cov-14; do
  command -v "$tool" >/dev/null || die "$tool is missing: scripts/setup.sh checks installs llvm-14"
done
plan fuzz-coverage 3
build=build/fuzz-coverage
mkdir -p "$LOGS" "$build/raw"
step "build"
logged configure-fuzz-coverage cmake -S . --preset fuzz -B "$build" -DUNISONO_SANITIZE= \
  -DCMAKE_CXX_FLAGS="-O1 -fprofile-instr-generate -fcoverage-mapping"
logged build-fuzz-coverage cmake --build "$build" --parallel "$(jobs_count)" --target fuzz_targets

step "run every input of the corpora"
objects=()
for program in "$build"/bin/fuzz_*; do
  target=${program##*/fuzz_}
  LLVM_PROFILE_FILE=$build/raw/$target logged "coverage-$target" \
    "$program" -runs=0 "fuzz/corpus/$target"
  if ((${#objects[@]} > 0)); then
    objects+=(-object)
  fi
  objects+=("$program")
done

step "count"
llvm-profdata-14 merge -o "$build/profile" "$build"/raw/*
llvm-cov-14 export -summary-only "${objects[@]}" -instr-profile "$build/profile" "${PARSERS[@]/#/$ROOT/}" |
  python3 tools/line_coverage.py "$ROOT" "$least" "${PARSERS[@]}" >"$PROOF_FIGURES" || {
  cat "$PROOF_FIGURES"
  die "a file is reached in less than $least % of its lines, or not measured"
}
cat "$PROOF_FIGURES"
