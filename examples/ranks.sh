#!/usr/bin/env bash
# Starts a program as several ranks of one world, and waits for them.
#
# Usage: examples/ranks.sh RANKS PROGRAM [ARGUMENT…]
set -euo pipefail

size=${1:?how many ranks?}
shift
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
pids=()
for ((rank = 0; rank < size; ++rank)); do
  RANK=$rank WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
exit "$status"
