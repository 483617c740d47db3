#!/usr/bin/env bash
# Shows unisono at work: builds it, starts its store server, and lets separate processes meet
# through it: three C++ programs and, where PyTorch can be had, one stock torch.distributed
# client that knows nothing of unisono. Then several processes compute together, one of them dies,
# four train a small network with NumPy where that can be had, and all_reduce is measured beside
# other libraries. Installs what is missing first; once all is built it takes less than a minute.
#
# Usage: scripts/demo.sh [--no-pypi]
#
#   --no-pypi    use nothing from PyPI: C++ processes only
#   -h, --help   this text
#
# Everything runs on this host and is gone at the end, also after Ctrl-C, but for the plot of the
# training: build/loss.svg.

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

# last_bars: passes on what is printed. A progress bar moves on a terminal; elsewhere only its end
# is of interest.
last_bars() {
  if [[ -t 1 ]]; then
    cat
  else
    sed 's/.*\r//'
  fi
}

# train: a data-parallel training with NumPy, or why there is none.
train() {
  # In the foreground, so that Ctrl-C reaches the launcher, which passes it on.
  local launch=(timeout --foreground --kill-after=2 "$PATIENCE" "$BIN/unisono" run -n "$WORLD")
  if ((${#pypi[@]} > 0)) || ! installed package || ! installed tests; then
    say "left out: it needs NumPy and the Python package, for which PyPI is needed"
    return 0
  fi
  if ! install_package; then
    say "left out: the Python package could not be built"
    return 0
  fi
  PYTHON_EXEC=$VENV/bin/python "${launch[@]}" --prefix "   " \
    examples/train_numpy.py --plot build/loss.svg </dev/null |
    last_bars || die "the training failed"
}

# measure: all_reduce beside that of other libraries. Of the circumstances only who is left out.
measure() {
  "$BIN/unisono" bench all_reduce -b 64 -e 4M -f 256 --rounds 3 --compare gloo,mpi |
    sed -n '/ left out: /p; /^operation/,$p' | tee "$notes/measured" || die "the measurement failed"
  if grep -q " left out: " "$notes/measured"; then
    say "to measure those too: scripts/setup.sh peers, then this script again"
  fi
}

cd "$ROOT"
scripts/setup.sh "${pypi[@]}"

plan demo 6
step "build (preset release)"
build release unisono_program example_meet example_hello example_dead_peer compare_peers
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
step "let $WORLD processes train a network, each with its share of the examples"
train
step "measure all_reduce between two processes, beside the other libraries that are installed"
measure
echo "Try it yourself: build/release/bin/unisono run -n 4 PROGRAM, and docs/tutorial.md"
