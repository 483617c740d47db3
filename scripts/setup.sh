#!/usr/bin/env bash
# Installs what unisono is built and tested with: Debian packages (apt-get, as root or with sudo)
# and Python packages (pip, into .venv). Only what is missing: a second run changes nothing.
#
# Usage: scripts/setup.sh [checks] [peers] [--no-pypi]
#
#   checks       also what the checks of tools/check.sh need: Clang, ShellCheck, ruff, mypy
#   peers        also the libraries that unisono_compare compares with: Open MPI, MPICH, Gloo
#   --no-pypi    use no Python packages, also if they are there; what needs them is left out
#   -h, --help   this text
#
# When PyPI cannot be reached the C++ part is complete all the same, and the script says what is
# left out. Run it again later to complete it. Long output is in build/logs.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BUILD_PACKAGES=(
  ca-certificates ccache cmake g++ ninja-build pkg-config
  libcli11-dev libfmt-dev libhwy-dev libspdlog-dev libssl-dev libuv1-dev nlohmann-json3-dev
  libgmock-dev libgtest-dev
  iproute2 # makes the networks of tests between hosts
  redis-tools # has Redis's server, which the benchmark compares with
)
PEER_PACKAGES=(libgloo-dev libmpich-dev libopenmpi-dev mpich openmpi-bin)
CHECK_PACKAGES=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev llvm-14 shellcheck)

checks=no
peers=no
pypi=yes
for argument in "$@"; do
  case $argument in
    checks) checks=yes ;;
    peers) peers=yes ;;
    --no-pypi) pypi=no ;;
    -h | --help) usage "${BASH_SOURCE[0]}" && exit 0 ;;
    *) die "unknown argument '$argument'; see scripts/setup.sh --help" ;;
  esac
done

# usable_python PROGRAM: new enough, and able to make a virtual environment.
usable_python() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# find_python: prints the Python that .venv is made with.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if usable_python "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# has_headers PROGRAM: the Python package can be compiled for it.
has_headers() {
  "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}

missing_packages() {
  local package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      echo "$package"
    fi
  done
}

as_root() {
  if (($(id -u) == 0)); then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

install_debian() {
  local wanted=("${BUILD_PACKAGES[@]}") missing
  if [[ $checks == yes ]]; then
    wanted+=("${CHECK_PACKAGES[@]}")
  fi
  if [[ $peers == yes ]]; then
    wanted+=("${PEER_PACKAGES[@]}")
  fi
  if ! find_python >/dev/null; then
    wanted+=(python3 python3-venv python3-dev)
  elif [[ $pypi == yes ]] && ! has_headers "$(find_python)"; then
    wanted+=(python3-dev)
  fi
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    warn "this is no Debian; make sure to have the like of: ${wanted[*]}"
    return 0
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ((${#missing[@]} == 0)); then
    say "nothing is missing"
    return 0
  fi
  if (($(id -u) != 0)) && ! command -v sudo >/dev/null; then
    die "Debian packages are missing, and this is neither root nor is there sudo. As root: apt-get install ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  # An update that fails for one source of many does not matter if the packages can be had.
  logged apt-update as_root apt-get -q update || true
  logged apt-install as_root apt-get -q -y -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "${missing[@]}"
}

make_venv() {
  local python
  if [[ -d $VENV ]] && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    return 0
  fi
  python=$(find_python) || {
    warn "there is no Python 3.10 or newer with venv"
    return 1
  }
  rm -rf "$VENV"
  say "making .venv with $("$python" --version)"
  logged venv "$python" -m venv "$VENV"
}

# pip_reason LOG: why pip failed, in one line.
pip_reason() {
  local reason
  if grep -qE 'Connection|Temporary failure|timed out|ProxyError' "$1"; then
    echo "the package index cannot be reached"
    return 0
  fi
  reason=$(grep -E '^ERROR: ' "$1" | grep -v 'Could not find a version' | tail -n 1) || true
  reason=${reason:-$(grep -v '^ *$' "$1" | tail -n 1)}
  reason=${reason#ERROR: }
  printf '%.160s' "${reason:-unknown reason}"
}

note_left_out() { echo "left out: $*" >>"$LEFT_OUT"; }

# install_python GROUP WHAT: installs scripts/requirements/GROUP.txt, or notes that WHAT is left out.
install_python() {
  local group=$1 what=$2 list=$ROOT/scripts/requirements/$1.txt names
  names=$(sed -nE 's/^([A-Za-z0-9_-]+)==.*/\1/p' "$list" | sort -u | paste -sd ' ')
  if [[ $pypi == no ]]; then
    note_left_out "$what (--no-pypi)"
    return 0
  fi
  if installed "$group"; then
    return 0
  fi
  if ! make_venv; then
    note_left_out "$what ($names could not be installed: no virtual environment)"
    return 0
  fi
  say "installing $names"
  if logged "pip-$group" "$VENV/bin/python" -m pip install --retries 2 --progress-bar off -r "$list"; then
    cp "$list" "$VENV/.installed-$group"
  else
    note_left_out "$what ($names could not be installed: $(pip_reason "$LOGS/pip-$group.log"))"
  fi
}

plan setup 2
mkdir -p "$LOGS"
: >"$LEFT_OUT"

step "Debian packages"
install_debian

step "Python packages, in .venv"
install_python package "the Python package"
install_python tests "the Python tests"
install_python torch "interop with PyTorch"
if [[ $checks == yes ]]; then
  install_python checks "the checks of Python code"
fi
if [[ -s $LEFT_OUT ]]; then
  left_out
else
  say "complete"
fi
