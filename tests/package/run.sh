#!/usr/bin/env bash
# Installs a build into a temporary folder and uses it from outside: through CMake's find_package
# and through pkg-config, at the first place and again after the whole tree was moved. Then looks
# at what the library exports and what its headers include.
#
# Usage: run.sh BUILD_FOLDER CMAKE CXX VERSION

set -euo pipefail

build=$1 cmake=$2 cxx=$3 version=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "package: $*" >&2
  exit 1
}

# try_program PROGRAM: it must run, find its library by itself, and say that all is good.
try_program() {
  local output
  output=$("$1") || fail "$1 failed: $output"
  grep -q "^unisono $version\$" <<<"$output" || fail "$1 saw another version: $output"
  grep -q '^outside: good$' <<<"$output" || fail "$1 said: $output"
}

use_through_cmake() {
  local prefix=$1 work=$2
  "$cmake" -S "$here/outside" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >"$work.log" 2>&1 ||
    fail "find_package failed: $(cat "$work.log")"
  "$cmake" --build "$work" >>"$work.log" 2>&1 || fail "did not build: $(cat "$work.log")"
  try_program "$work/outside"
}

use_through_pkg_config() {
  local prefix=$1 program=$2 libdir flags
  libdir=$(dirname "$(find "$prefix" -name unisono.pc)")
  flags=$(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs unisono)
  libdir=$(PKG_CONFIG_PATH=$libdir pkg-config --variable=libdir unisono)
  # shellcheck disable=SC2086 # the flags are words
  "$cxx" -std=c++20 "$here/outside/main.cpp" -o "$program" $flags -Wl,-rpath,"$libdir"
  try_program "$program"
}

# Another release series than the one asked for must be refused.
refuse_other_versions() {
  local prefix=$1 work=$2 wanted
  for wanted in 0.2 1.0; do
    mkdir -p "$work"
    sed "s/find_package(unisono 0.1/find_package(unisono $wanted/" \
      "$here/outside/CMakeLists.txt" >"$work/CMakeLists.txt"
    cp "$here/outside/main.cpp" "$work"
    if "$cmake" -S "$work" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
      -DCMAKE_PREFIX_PATH="$prefix" >/dev/null 2>&1; then
      fail "find_package(unisono $wanted) accepted version $version"
    fi
  done
}

check_exports() {
  local library=$1 strange
  [[ -n $(nm -D --defined-only "$library") ]] || fail "$library exports nothing"
  strange=$(nm -DC --defined-only "$library" | cut -d ' ' -f 3- |
    grep -vE '^((vtable|VTT|typeinfo|typeinfo name|guard variable) for |(non-)?virtual thunk to )?unisono::' |
    grep -vE '^unisono_[a-z0-9_]+$') || true
  [[ -z $strange ]] || fail "$(basename "$library") exports what is not unisono's: $strange"
  # What C programs are linked against is a promise: it changes only together with its list.
  strange=$(diff "$here/c_symbols.txt" <(nm -D --defined-only "$library" | cut -d ' ' -f 3 |
    grep -E '^unisono_' | LC_ALL=C sort)) ||
    fail "the functions of unisono.h differ from tests/package/c_symbols.txt: $strange"
}

# compile_alone FOLDER HEADER: compiles it twice in a row, with nothing else to look in; one for C
# as C too.
compile_alone() {
  local twice
  twice=$(printf '#include "%s"\n' "$2" "$2")
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$1" -x c++ - <<<"$twice"
  if [[ $2 == *.h ]]; then
    "$cxx" -std=c99 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I "$1" -x c - <<<"$twice"
  fi
}

# Every public header is there, compiles alone, includes only the standard library and others that
# are installed, and has no name of a library that we build on in it.
check_headers() {
  local folder=$1 header found included headers=()
  (cd "$here/../../include" && find unisono -name '*.h*') >"$scratch/public"
  echo unisono/version.hpp >>"$scratch/public"
  (cd "$folder" && find . -name '*.h*' -printf '%P\n') >"$scratch/installed"
  found=$(diff <(sort "$scratch/public") <(sort "$scratch/installed")) ||
    fail "the public headers and the installed ones differ: $found"
  mapfile -t headers <"$scratch/installed"
  for header in "${headers[@]}"; do
    while read -r included; do
      case $included in
        '"unisono/'*) [[ -f $folder/$(tr -d '"' <<<"$included") ]] && continue ;;
        '<stddef.h>' | '<stdint.h>') [[ $header == *.h ]] && continue ;;
        '<'*[/.]*) ;;
        '<'*) continue ;;
      esac
      fail "$header includes $included, which is neither installed nor of the standard library"
    done < <(sed -nE 's/^ *# *include *([<"][^>"]+[>"]).*/\1/p' "$folder/$header")
  done
  found=$(grep -rnE '\b(uv_[a-z]+|fmt::|spdlog::|hwy::|nlohmann::|CLI::|nanobind|testing::)' "$folder") || true
  [[ -z $found ]] || fail "installed headers name what we build on: $found"
  export cxx
  export -f compile_alone
  # shellcheck disable=SC2016 # the inner shell expands them
  printf '%s\n' "${headers[@]}" |
    xargs -P 2 -I HEADER bash -c 'compile_alone "$0" "$1"' "$folder" HEADER ||
    fail "an installed header does not compile alone"
}

prefix=$scratch/first/place
"$cmake" --install "$build" --prefix "$prefix" >"$scratch/install.log" ||
  fail "install failed: $(cat "$scratch/install.log")"
check_exports "$(find "$prefix" -name 'libunisono.so.*.*.*')"
check_headers "$prefix/include"
[[ -n $(find "$prefix" -name LICENSE) ]] || fail "the licence is not installed"
if [[ -x $prefix/bin/unisono ]]; then
  "$prefix/bin/unisono" --version | grep -q "$version" || fail "the installed program does not run"
fi
use_through_cmake "$prefix" "$scratch/cmake1"
use_through_pkg_config "$prefix" "$scratch/program1"
refuse_other_versions "$prefix" "$scratch/versions"

moved=$scratch/second
mv "$prefix" "$moved"
use_through_cmake "$moved" "$scratch/cmake2"
use_through_pkg_config "$moved" "$scratch/program2"
if [[ -x $moved/bin/unisono ]]; then
  "$moved/bin/unisono" --version | grep -q "$version" || fail "the moved program does not run"
fi
echo "package: the installed tree works in both places"
