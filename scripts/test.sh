#!/usr/bin/env bash
# Builds unisono, installs its Python package into .venv, and runs the tests: the C++ ones (ctest),
# then the Python ones (pytest), which also talk to a stock PyTorch. Installs what is missing first.
# About 20 minutes on two cores at first; in a second clone 14, since ccache helps.
#
# Usage: scripts/test.sh [--no-pypi]
#
#   --no-pypi    use nothing from PyPI: no Python package, and only the C++ tests
#   -h, --help   this text
#
# Exit: 0 when all tests passed. The program is left in build/release/bin/unisono.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pypi=()
for argument in "$@"; do
  case $argument in
    --no-pypi) pypi=(--no-pypi) ;;
    -h | --help) usage "${BASH_SOURCE[0]}" && exit 0 ;;
    *) die "unknown argument '$argument'; see scripts/test.sh --help" ;;
  esac
done

# build_package: the Python package, where what it is built with could be had.
build_package() {
  if ((${#pypi[@]} > 0)) || ! installed package; then
    say "left out, see below"
    return 0
  fi
  install_package
}

# run_pytest: all Python tests, one more at a time than there are processors, since some wait; no
# test at all is no failure.
run_pytest() {
  local status=0
  if ((${#pypi[@]} > 0)) || ! installed tests; then
    say "left out, see below"
    return 0
  fi
  if [[ -z $(find tests -name 'test_*.py' -print -quit) ]]; then
    say "there are none"
    return 0
  fi
  .venv/bin/python -m pytest tests --numprocesses "$(($(jobs_count) + 1))" --dist worksteal || status=$?
  if ((status == 5)); then
    status=0
  fi
  return "$status"
}

cd "$ROOT"
begin=$SECONDS
scripts/setup.sh "${pypi[@]}"

plan test 4
step "build (preset release)"
build release

failed=()
step "Python package, into .venv"
build_package || failed+=("the Python package")
step "C++ tests"
ctest --preset release || failed+=("the C++ tests")
step "Python tests"
run_pytest || failed+=("the Python tests")

left_out
if ((${#failed[@]} > 0)); then
  warn "failed after $(took $((SECONDS - begin))): ${failed[*]}"
  exit 1
fi
echo "all tests passed in $(took $((SECONDS - begin)))"
