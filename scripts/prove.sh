#!/usr/bin/env bash
# Runs one of the long proofs: too long for the tests, run by hand, at most an hour each. A proof
# that succeeds writes its figures to docs/proofs.md, with date, processor, load and command.
#
# Usage: scripts/prove.sh NAME [OPTION…]
#
#   --list       the proofs and what each of them shows
#   NAME --help  the options of one proof
#   -h, --help   this text

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
STEP_LABEL=prove

list_proofs() {
  local piece
  for piece in scripts/proofs/*.sh; do
    printf '%-16s %s\n' "$(basename "$piece" .sh)" "$(sed -n '2s/^# //p' "$piece")"
  done
}

# circumstances COMMAND…: where and when the figures were measured.
circumstances() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  cat <<END
| circumstance | |
|---|---|
| date | $(date -u '+%Y-%m-%d %H:%M UTC') |
| command | \`$*\` |
| commit | $(git describe --always --dirty 2>/dev/null || echo unknown) |
| processor | ${model:-$(uname -m)}, $(nproc) cores |
| memory | $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo) |
| load before | $load_before |
| took | $(took $((SECONDS - begin))) |
END
}

case ${1:-} in
  "" | -h | --help) usage "${BASH_SOURCE[0]}" && exit 0 ;;
  --list) list_proofs && exit 0 ;;
esac
name=$1
piece=scripts/proofs/$name.sh
shift
[[ -f $piece ]] || die "there is no proof '$name'; see scripts/prove.sh --list"
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  usage "$piece"
  exit 0
fi

begin=$SECONDS
load_before=$(cut -d ' ' -f 1-3 /proc/loadavg)
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
status=0
PROOF_FIGURES=$figures bash "$piece" "$@" || status=$?
if ((status != 0)); then
  warn "$name failed (exit $status); docs/proofs.md is left as it was"
  exit "$status"
fi
{
  sed -n '2s/^# //p' "$piece"
  echo
  circumstances scripts/prove.sh "$name" "$@"
  echo
  cat "$figures"
} | python3 tools/proofs.py section docs/proofs.md "$name"
echo "$name succeeded in $(took $((SECONDS - begin))); its figures are in docs/proofs.md"
