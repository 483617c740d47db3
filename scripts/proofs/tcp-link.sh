#!/usr/bin/env bash
# How much of a network of 1 Gbit/s an all_reduce of 64 MiB uses, between 2 and 4 hosts: at least 0.9.
#
# Usage: scripts/prove.sh tcp-link [--count N]
#
#   --count N   operations of each number of hosts (9)
#
# A host is a network namespace with one rank. All are joined by a bridge, and what each may send and
# get is limited by a token bucket (tc tbf). Takes about a minute. Needs root, ip and tc (iproute2);
# the machine's own network is not touched, and nothing of it stays.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

readonly BYTES=67108864
readonly RATE=1000000000 # bits per second
readonly LEAST=0.9       # of what the network could do at best

# limit DEVICE [IP-OPTION…]: what leaves by it. The bucket has room for the largest piece that the
# kernel hands over at once.
limit() {
  local device=$1
  shift
  tc "$@" qdisc add dev "$device" root tbf rate "$RATE" burst 128kb latency 50ms
}

# build_network HOSTS: the namespaces host0, host1, … on one bridge, with addresses 10.77.0.1, …
build_network() {
  local host
  mkdir -p /run/netns
  mount -t tmpfs tmpfs /run/netns
  ip link set lo up
  ip link add bridge0 type bridge
  ip link set bridge0 up
  for ((host = 0; host < $1; host++)); do
    ip netns add "host$host"
    ip link add "port$host" type veth peer name eth0 netns "host$host"
    ip link set "port$host" master bridge0 up
    ip -n "host$host" addr add "10.77.0.$((host + 1))/24" dev eth0
    ip -n "host$host" link set lo up
    ip -n "host$host" link set eth0 up
    limit "port$host"
    limit eth0 -n "host$host"
  done
}

# run_hosts HOSTS COUNT SECRET: prints what rank 0 does. The network is nobody else's, so the store
# may be reached by all of it.
run_hosts() {
  local host
  build_network "$1" >&2
  export WORLD_SIZE=$1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 UNISONO_IFNAME=eth0
  export UNISONO_AUTH_SECRET_FILE=$3 UNISONO_ALLOW_UNAUTHENTICATED=1 UNISONO_TIMEOUT=60
  for ((host = 0; host < $1; host++)); do
    RANK=$host UNISONO_HOST_ID=host$host \
      ip netns exec "host$host" "$BIN/link_rate" "$BYTES" "$2" &
  done
  for ((host = 0; host < $1; host++)); do
    wait -n || return 1 # the others end with this process
  done
}

# In a network and a mount namespace of its own: see below.
if [[ ${1:-} == inside ]]; then
  shift
  run_hosts "$@"
  exit
fi

count=9
while (($# > 0)); do
  case $1 in
    --count) count=${2:?--count needs a number} && shift 2 ;;
    *) die "unknown argument '$1'; see scripts/prove.sh tcp-link --help" ;;
  esac
done
for program in ip tc; do
  command -v "$program" >/dev/null || die "$program is missing: apt-get install iproute2"
done
unshare --net --mount true 2>/dev/null || die "a network namespace cannot be made: this needs root"

scripts/setup.sh --no-pypi
plan tcp-link 3
step "build (preset release)"
build release link_rate

mkdir -p "$LOGS"
secret=$(mktemp)
trap 'rm -f "$secret"' EXIT
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$secret"
lines=("| hosts | seconds | least to most | at best | used of the network |" "|---|---|---|---|---|")
enough=1
for hosts in 2 4; do
  step "$hosts hosts"
  figures=$(timeout 150 unshare --net --mount --pid --fork --kill-child \
    bash "${BASH_SOURCE[0]}" inside "$hosts" "$count" "$secret" 2>"$LOGS/tcp-link.log") || {
    tail -n 5 "$LOGS/tcp-link.log" >&2
    die "the all_reduce of $hosts hosts failed"
  }
  read -r median least most <<<"$figures"
  best=$(awk "BEGIN {printf \"%.3f\", 8 * 2 * $BYTES * ($hosts - 1) / $hosts / $RATE}")
  used=$(awk "BEGIN {printf \"%.3f\", $best / $median}")
  lines+=("| $hosts | $median | $least to $most | $best | $used |")
  say "${lines[-1]}"
  awk "BEGIN {exit !($used >= $LEAST)}" || enough=0
done
printf '%s\n' "${lines[@]}" >"$PROOF_FIGURES"
cat >>"$PROOF_FIGURES" <<'END'

Seconds are those of the slowest rank, the median of all operations. Each host must send 2·N·(H − 1)/H bytes, and get as
many, each way at 1 Gbit/s: that is what is possible at best. The headers of frames count too, 66 bytes of 1,514, so that
no program gets more than 0.956 of it.
END
((enough == 1)) || die "less than $LEAST of the network was used"
