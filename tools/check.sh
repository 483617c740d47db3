#!/usr/bin/env bash
# Checks the tree beyond its tests. Each check runs by itself; without a name all run, and a table
# shows how they went.
#
# Usage: tools/check.sh [NAME…]
#
#   layers    every #include against the rooms' dependencies
#   sizes     length of files and functions
#   waits     no blocking call outside the places that may block
#   explored  the explorer of interleavings knows every protocol in shared memory
#   docs      documents agree with the code, links lead somewhere
#   format    C++ is laid out by clang-format
#   shell     ShellCheck
#   python    ruff (mistakes and layout) and mypy
#   pytorch   PyTorch's own tests of torch.distributed over unisono, with 4 ranks
#   headers   every header and every source compiles alone
#   tidy      clang-tidy on src, bench, cli and examples: names and a few mistakes (or on given files)
#   asan      tests under AddressSanitizer, leak detection and UBSan; built by Clang with its
#             thread-safety analysis, warnings are errors
#   tsan      tests under ThreadSanitizer
#   fuzz      every fuzz target for a minute (or FUZZ_SECONDS), from its corpus
#   all       all of them
#
#   --fix      only with format: lay out C++ and Python instead of complaining
#   --list     the names, one per line
#   -h, --help this text
#
# The tools they need come with: scripts/setup.sh checks

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
cd "$ROOT"
STEP_LABEL=check

CHECKS=(layers sizes waits explored docs format shell python pytorch headers tidy asan tsan fuzz)
# Tests that are not run under sanitizers: they build other programs, or load libraries that are
# not instrumented.
NOT_SANITIZED='package|interop'

HOW_TO_FORMAT="to lay them out: tools/check.sh format --fix"

fix=no
python=python3
if [[ -x $VENV/bin/python ]]; then
  python=$VENV/bin/python
fi

need() {
  command -v "$1" >/dev/null || die "$1 is missing; run: scripts/setup.sh checks"
}

need_python_checks() {
  installed checks || die "ruff and mypy are missing; run: scripts/setup.sh checks"
}

CPP_FOLDERS=(include src bench cli python torch examples fuzz tests)
cpp_files() { find "${CPP_FOLDERS[@]}" -name '*.[ch]pp' -o -name '*.h' | sort; }
shell_files() { find scripts tools tests .ci \( -name '*.sh' -o -path '.ci/run' \) | sort; }
python_files() { find bench examples python tools tests -name '*.py' | sort; }

check_layers() { "$python" tools/check_layers.py; }
check_sizes() { "$python" tools/check_sizes.py; }
check_waits() { "$python" tools/check_waits.py; }
check_explored() { "$python" tools/check_explored.py; }
check_docs() { "$python" tools/check_docs.py; }
check_headers() { "$python" tools/check_headers.py; }

check_format() {
  need clang-format-14
  if [[ $fix == yes ]]; then
    cpp_files | xargs clang-format-14 -i
    need_python_checks
    python_files | xargs "$VENV/bin/ruff" format -q
  else
    cpp_files | xargs clang-format-14 --dry-run --Werror || die "$HOW_TO_FORMAT"
  fi
  echo "format: good"
}

check_shell() {
  need shellcheck
  shell_files | xargs shellcheck --external-sources
  echo "shell: good"
}

check_python() {
  need_python_checks
  python_files | xargs "$VENV/bin/ruff" check
  python_files | xargs "$VENV/bin/ruff" format --check -q || die "$HOW_TO_FORMAT"
  python_files | xargs "$VENV/bin/mypy"
}

check_pytorch() {
  installed torch || die "PyTorch is missing; run: scripts/setup.sh"
  install_package
  logged pytorch "$VENV/bin/python" -m tests.pytorch.run || {
    grep -E '^(FAIL|ERROR):|ranks:|^  test_' "$LOGS/pytorch.log"
    die "not as many pass as should; all of it is in $LOGS/pytorch.log"
  }
  tail -n 2 "$LOGS/pytorch.log"
}

check_tidy() {
  need clang-tidy-14
  cmake --preset tidy >/dev/null
  "$python" tools/check_tidy.py "$@"
}

# sanitized PRESET: builds it and runs its tests. Without address-space randomisation where that is
# possible: ThreadSanitizer of GCC 12 does not start on kernels that randomise widely.
sanitized() {
  local preset=$1 plain=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    plain=(setarch "$(uname -m)" -R)
  fi
  logged "configure-$preset" cmake -S . --preset "$preset"
  # Goes on after an error, to show all of them.
  logged "build-$preset" "${plain[@]}" \
    cmake --build "build/$preset" --parallel "$(jobs_count)" -- -k 0 || {
    grep -E ' (warning|error): ' "$LOGS/build-$preset.log" | sed "s|^$ROOT/||" | sort -u
    exit 1
  }
  "${plain[@]}" ctest --preset "$preset" --label-exclude "$NOT_SANITIZED"
}

check_asan() {
  need clang++-14
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:check_initialization_order=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  sanitized asan
}

check_tsan() {
  # At the end of a process it would wait a second for reports by the way.
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=20:suppressions=$ROOT/tools/tsan.supp
  sanitized tsan
}

# Four targets per core at a time. A finding is left in build/fuzz/findings.
check_fuzz() {
  need clang++-14
  logged configure-fuzz cmake -S . --preset fuzz
  logged build-fuzz cmake --build build/fuzz --parallel "$(jobs_count)" --target fuzz_targets
  find fuzz -maxdepth 1 -name '*.cpp' -printf '%f\n' | sed 's/\.cpp$//' | sort |
    xargs -P "$((4 * $(jobs_count)))" -I{} tools/fuzz_one.sh {} "${FUZZ_SECONDS:-60}"
}

# minutes_for NAME: how long a check may take before it counts as hanging.
minutes_for() {
  case $1 in
    asan | tsan) echo 35 ;;
    tidy | fuzz) echo 18 ;;
    pytorch) echo 12 ;;
    headers) echo 15 ;;
    *) echo 3 ;;
  esac
}

names=()
files=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage "${BASH_SOURCE[0]}" && exit 0 ;;
    --list) printf '%s\n' "${CHECKS[@]}" && exit 0 ;;
    --minutes=*) minutes_for "${argument#*=}" && exit 0 ;;
    --fix) fix=yes ;;
    all) names+=("${CHECKS[@]}") ;;
    *)
      if [[ " ${CHECKS[*]} " == *" $argument "* ]]; then
        names+=("$argument")
      elif [[ -f $argument ]]; then
        files+=("$argument")
      else
        die "there is no check '$argument'; see tools/check.sh --help"
      fi
      ;;
  esac
done

if ((${#names[@]} == 1)); then
  "check_${names[0]}" "${files[@]}"
  exit 0
fi
if ((${#names[@]} == 0)); then
  names=("${CHECKS[@]}")
fi
for name in "${names[@]}"; do
  attempt "$name" "$(minutes_for "$name")" bash tools/check.sh "$name"
done
attempts_summary
