#!/usr/bin/env bash
# Shows unisono at work: builds it, starts its store server, and lets separate processes meet
# through it: three C++ programs and, where PyTorch can be had, one stock torch.distributed
# client that knows nothing of unisono. Then a small computation of several processes, and how
# fast it is. Installs what is missing first.
#
# Usage: scripts/demo.sh [--no-pypi]
#
#   --no-pypi    use nothing from PyPI: C++ processes only
#   -h, --help   this text
#
# Everything runs on this host and is gone at the end, also after Ctrl-C.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

WORLD=4
PATIENCE=60 # seconds until the demo gives up on a rank

pypi=()
for argument in "$@"; do
  case $argument in
    --no-pypi) pypi=(--no-pypi) ;;
    -h | --help) usage "${BASH_SOURCE[0]}" && exit 0 ;;
    *) die "unknown argument '$argument'; see scripts/demo.sh --help" ;;
  esac
done

server=""
ranks=()
notes=""

# clean_up: ends whatever the demo started. Ranks get SIGTERM, then the server; what does not
# go within three seconds is killed.
clean_up() {
  trap - EXIT INT TERM
  local pid
  for pid in "${ranks[@]}" ${server:+"$server"}; do
    kill "$pid" 2>/dev/null || continue
    timeout 3 tail -s 0.1 --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  if [[ -n $notes ]]; then
    rm -rf "$notes"
  fi
}
trap clean_up EXIT
trap 'clean_up; exit 130' INT
trap 'clean_up; exit 143' TERM

# start_server: sets `server` and `endpoint`.
start_server() {
  local waited=0
  : >"$notes/server" # so that it can be read before the program has made it
  "$BIN/unisono" store serve --port 0 --json >"$notes/server" 2>"$notes/server.err" &
  server=$!
  until endpoint=$(sed -nE 's/.*"endpoint": ?"([^"]+)".*/\1/p' "$notes/server" | head -n 1) &&
    [[ -n $endpoint ]]; do
    if ! kill -0 "$server" 2>/dev/null || ((++waited > 100)); then
      cat "$notes/server" "$notes/server.err" >&2
      die "the store server did not start"
    fi
    sleep 0.1
  done
}

# start_rank RANK COMMAND…: runs it with a time limit and its output in a file.
start_rank() {
  local rank=$1
  shift
  timeout --kill-after=2 "$PATIENCE" "$@" >"$notes/rank$rank" 2>&1 &
  ranks[rank]=$!
}

cd "$ROOT"
scripts/setup.sh "${pypi[@]}"

plan demo 5
step "build (preset release)"
build release unisono_program example_meet example_hello example_dead_peer unisono_compare compare_peers
for program in unisono example_meet example_hello example_dead_peer; do
  [[ -x $BIN/$program ]] || die "build/release/bin/$program was not built"
done

step "start a store server"
notes=$(mktemp -d)
start_server
say "listening at $endpoint (pid $server)"

torch=no
if ((${#pypi[@]} == 0)) && installed torch; then
  torch=yes
fi
step "let $WORLD processes meet through it"
for ((rank = 0; rank < WORLD - 1; ++rank)); do
  start_rank "$rank" "$BIN/example_meet" "$endpoint" "$rank" "$WORLD"
done
if [[ $torch == yes ]]; then
  start_rank "$rank" .venv/bin/python examples/meet_torch.py "$endpoint" "$rank" "$WORLD"
else
  start_rank "$rank" "$BIN/example_meet" "$endpoint" "$rank" "$WORLD"
fi

failures=0
for ((rank = 0; rank < WORLD; ++rank)); do
  status=0
  wait "${ranks[rank]}" || status=$?
  sed 's/^/    /' "$notes/rank$rank"
  if ((status != 0)); then
    warn "rank $rank failed (exit $status)"
    failures=$((failures + 1))
  fi
done
ranks=()

left_out | grep PyTorch || true
if ((failures > 0)); then
  die "$failures of $WORLD ranks failed; the server said: $(cat "$notes/server.err")"
fi
if [[ $torch == yes ]]; then
  echo "$WORLD processes met: $((WORLD - 1)) of C++ and one stock PyTorch client, through one unisono store."
else
  echo "$WORLD processes met, all of C++, through one unisono store."
fi
step "let $WORLD processes compute together, and one of three die"
examples/ranks.sh "$WORLD" "$BIN/example_hello" | sed 's/^/    /'
"$BIN/example_dead_peer" | sed 's/^/    /'
step "measure all_reduce between two processes, beside the other libraries that are installed"
"$BIN/unisono_compare" --ops all_reduce --sizes 4,65536,4194304 --rounds 3 2>"$notes/compare" |
  sed 's/^/    /' || die "$(cat "$notes/compare")"
grep "is left out" "$notes/compare" | sed 's/^/    /' || true
echo "Try it yourself: build/release/bin/unisono store serve"
