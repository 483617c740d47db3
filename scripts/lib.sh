# shellcheck shell=bash
# What the scripts share: where things are, numbered steps, logged commands, what was left out.
# Sourced, not run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOGS=$ROOT/build/logs
VENV=$ROOT/.venv
# shellcheck disable=SC2034 # used by those who source this
BIN=$ROOT/build/release/bin
LEFT_OUT=$ROOT/build/left-out.txt # one line per thing that could not be had; written by setup.sh

STEP=0
STEPS=0
STEP_LABEL=unisono

# plan LABEL COUNT: begins a row of numbered steps.
plan() {
  STEP_LABEL=$1
  STEPS=$2
  STEP=0
}

# step TEXT: announces the next step.
step() {
  STEP=$((STEP + 1))
  printf '[%s %d/%d] %s\n' "$STEP_LABEL" "$STEP" "$STEPS" "$*"
}

say() { printf '    %s\n' "$*"; }

warn() { printf '%s: %s\n' "$STEP_LABEL" "$*" >&2; }

die() {
  warn "$*"
  exit 1
}

# usage FILE: prints the comment at the top of a script, which is its help text.
usage() { sed -n '2,/^$/{/^#/!q;s/^# \{0,1\}//;p}' "$1"; }

# took SECONDS: as people say it.
took() {
  if (($1 < 60)); then
    printf '%d s' "$1"
  else
    printf '%d min %02d s' "$(($1 / 60))" "$(($1 % 60))"
  fi
}

# moving: swallows the output of a long command and shows that it moves: the last line and the
# time on a terminal, a line every 20 seconds elsewhere.
moving() {
  local begin=$SECONDS shown=$SECONDS line="" chunk="" status=0 columns=${COLUMNS:-80}
  while true; do # ends with the input
    status=0
    IFS= read -r -t 1 chunk || status=$?
    if ((status > 0 && status <= 128)); then
      break
    fi
    if [[ -n $chunk ]]; then
      line=${chunk//$'\r'/ }
      line=${line//$'\t'/ }
    fi
    if [[ -t 1 ]]; then
      printf '\r\033[K    %s: %s' "$(took $((SECONDS - begin)))" "${line:0:columns-20}"
    elif ((SECONDS - shown >= 20)); then
      shown=$SECONDS
      say "$(took $((SECONDS - begin))): ${line:0:100}"
    fi
  done
  if [[ -t 1 ]]; then
    printf '\r\033[K'
  fi
}

# logged NAME COMMAND…: runs the command with its output in build/logs/NAME.log. When it fails,
# shows the end of the log and returns the command's status.
logged() {
  local name=$1 status=0 begin=$SECONDS
  shift
  mkdir -p "$LOGS"
  "$@" </dev/null 2>&1 | tee "$LOGS/$name.log" | moving || status=${PIPESTATUS[0]}
  if ((status != 0)); then
    warn "failed (exit $status) after $(took $((SECONDS - begin))): $*"
    warn "the end of build/logs/$name.log:"
    tail -n 30 "$LOGS/$name.log" >&2
  else
    say "done in $(took $((SECONDS - begin)))"
  fi
  return "$status"
}

# rounds_and_seed PROOF ARGUMENT…: reads --rounds N and --seed S into the variables of these names.
rounds_and_seed() {
  local proof=$1
  shift
  # shellcheck disable=SC2034 # used by those who source this
  while (($# > 0)); do
    case $1 in
      --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
      --seed) seed=${2:?--seed needs a number} && shift 2 ;;
      *) die "unknown argument '$1'; see scripts/prove.sh $proof --help" ;;
    esac
  done
}

# left_out: prints what setup.sh could not provide, if anything.
left_out() {
  if [[ -s $LEFT_OUT ]]; then
    cat "$LEFT_OUT"
  fi
}

# installed GROUP: whether scripts/requirements/GROUP.txt, as it is now, is in the .venv.
installed() {
  local stamp=$VENV/.installed-$1
  [[ -x $VENV/bin/python && -f $stamp ]] && cmp -s "$stamp" "$ROOT/scripts/requirements/$1.txt"
}

# package_stamp: changes whenever the Python package has to be built anew.
package_stamp() {
  local parts=(CMakeLists.txt LICENSE README.md VERSION pyproject.toml)
  parts+=(bench cli cmake include python src torch)
  (
    cd "$ROOT" || exit
    "$VENV/bin/python" -VV
    cat scripts/requirements/package.txt
    find "$VENV"/lib/python*/site-packages/torch/version.py -exec cat {} + 2>/dev/null || true
    find "${parts[@]}" -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum
  ) | sha256sum
}

# install_package: builds a wheel of the Python package in build/wheel and installs it into the
# .venv, unless it is there.
# It needs what setup.sh installs for it, and no package index. Where there is a build/release, it
# is brought up to date and linked, instead of compiling everything once more.
install_package() {
  local stamp prebuilt=() wheel=$ROOT/build/wheel
  stamp=$(package_stamp)
  if [[ -f $VENV/.installed-unisono && $(<"$VENV/.installed-unisono") == "$stamp" ]] &&
    compgen -G "$wheel/*.whl" >/dev/null; then
    say "nothing has changed"
    return 0
  fi
  rm -rf "$VENV/.installed-unisono" "$wheel"
  if [[ -f $ROOT/build/release/build.ninja ]] && build release unisono_program; then
    prebuilt=(--config-settings=cmake.define.UNISONO_PREBUILT="$ROOT/build/release"
      --config-settings=cmake.build-type=RelWithDebInfo # that of the preset
      --config-settings=install.strip=true)
  fi
  CMAKE_BUILD_PARALLEL_LEVEL=$(jobs_count) logged package "$VENV/bin/python" -m pip wheel -v \
    --no-build-isolation --no-cache-dir --no-deps --no-index --wheel-dir "$wheel" \
    --config-settings=cmake.define.UNISONO_WERROR=ON "${prebuilt[@]}" "$ROOT" || return
  logged install-package "$VENV/bin/python" -m pip install --no-deps --no-index --force-reinstall \
    "$wheel"/*.whl || return
  echo "$stamp" >"$VENV/.installed-unisono"
}

jobs_count() { nproc 2>/dev/null || echo 2; }

# build PRESET [TARGET…]: configures a preset of CMakePresets.json and builds the targets, or all.
build() {
  local preset=$1 targets=()
  shift
  if (($# > 0)); then
    targets=(--target "$@")
  fi
  logged "configure-$preset" cmake -S "$ROOT" --preset "$preset" &&
    logged "build-$preset" cmake --build "$ROOT/build/$preset" --parallel "$(jobs_count)" "${targets[@]}"
}

# Results of attempt, one row each: "verdict<TAB>time<TAB>name".
ATTEMPTS=()
ATTEMPTS_FAILED=0
ATTEMPTS_BUDGET=0 # minutes for all of them together, since the script began; 0: no limit

# attempt NAME MINUTES COMMAND…: runs the command, for at most so long, and notes how it went. What
# it prints is kept, unless it goes to a terminal.
attempt() {
  local name=$1 minutes=$2 begin=$SECONDS status=0 verdict=passed limit=(timeout --kill-after=10)
  shift 2
  if ((ATTEMPTS_BUDGET > 0 && minutes > ATTEMPTS_BUDGET - SECONDS / 60)); then
    minutes=$((ATTEMPTS_BUDGET - SECONDS / 60))
    minutes=$((minutes > 0 ? minutes : 1))
  fi
  printf '\n=== %s\n' "$name"
  if [[ -t 1 ]]; then
    # In the foreground, so that Ctrl-C reaches the command.
    "${limit[@]}" --foreground "${minutes}m" "$@" </dev/null || status=$?
  else
    mkdir -p "$LOGS"
    "${limit[@]}" "${minutes}m" "$@" </dev/null 2>&1 | tee "$(attempt_log "$name")" || status=${PIPESTATUS[0]}
  fi
  if ((status != 0)); then
    verdict=FAILED
    ATTEMPTS_FAILED=$((ATTEMPTS_FAILED + 1))
  fi
  if ((status == 124 || status == 137)); then
    warn "$name was ended after $minutes minutes"
  fi
  ATTEMPTS+=("$verdict"$'\t'"$(took $((SECONDS - begin)))"$'\t'"$name")
}

# attempt_log NAME: where the output of an attempt is kept.
attempt_log() { echo "$LOGS/attempt-${1// /-}.log"; }

# attempt_complaints NAME: which tests failed, as ctest and pytest list them, and how, in the words of
# the first ones; or else the last lines.
attempt_complaints() {
  local log lines
  log=$(attempt_log "$1")
  [[ -s $log ]] || return 0
  lines=$(grep -aE '^(FAILED|ERROR) |^[[:space:]]+[0-9]+ - .* \((Failed|Timeout|SEGFAULT|Subprocess|Not Run|.*Exception)' \
    "$log" | head -n 40) || lines=$(tail -n 15 "$log")
  lines+=$'\n'$(grep -aE -A 6 ': Failure$|^E  |^==[0-9]+==ERROR|^WARNING: ThreadSanitizer' "$log" | cut -c 1-400 | head -n 40 || true)
  printf '\n%s, of which all is in %s:\n%s\n' "$1" "${log#"$ROOT"/}" "$lines"
}

# attempts_summary: prints what failed of the attempts that did, and the table of all; fails when
# one of them did.
attempts_summary() {
  local row verdict time name
  for row in "${ATTEMPTS[@]}"; do
    IFS=$'\t' read -r verdict time name <<<"$row"
    if [[ $verdict == FAILED ]]; then
      attempt_complaints "$name"
    fi
  done
  printf '\n%-8s %14s   %s\n' result time what
  for row in "${ATTEMPTS[@]}"; do
    IFS=$'\t' read -r verdict time name <<<"$row"
    printf '%-8s %14s   %s\n' "$verdict" "$time" "$name"
  done
  printf '\nchecks: %d passed, %d failed\n' \
    "$((${#ATTEMPTS[@]} - ATTEMPTS_FAILED))" "$ATTEMPTS_FAILED"
  ((ATTEMPTS_FAILED == 0))
}
