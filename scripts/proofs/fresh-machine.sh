#!/usr/bin/env bash
# On a Debian 12 with nothing installed the README's two commands work, and start at once later.
#
# Usage: scripts/prove.sh fresh-machine [--sudo] [--no-pypi] [--keep]
#
#   --sudo       run the commands as an ordinary user with sudo instead of as root
#   --no-pypi    with nothing from PyPI
#   --keep       leave the machine's folder behind, to look around
#
# The machine is a folder made by debootstrap, entered with chroot; this needs root. It gets the
# host's package sources and pip configuration, a clone of the last commit, and nothing else.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$ROOT"

as_user=no
keep=no
options=()
for argument in "$@"; do
  case $argument in
    --sudo) as_user=yes ;;
    --no-pypi) options+=(--no-pypi) ;;
    --keep) keep=yes ;;
    *) die "unknown argument '$argument'; see scripts/prove.sh fresh-machine --help" ;;
  esac
done
(($(id -u) == 0)) || die "must be root, to make and enter the machine"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

# Mounts are made in a name space of our own: they go with this process, whatever ends it.
if [[ -z ${PROOF_NAMESPACE:-} ]]; then
  PROOF_NAMESPACE=1 exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" "$@"
fi

scratch=$(mktemp -d)
machine=$scratch/machine
home=/root

clean_up() {
  trap - EXIT INT TERM
  umount -R "$machine"/{proc,sys,dev} 2>/dev/null || true
  awk -v under="$machine/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r |
    xargs -r -n 1 umount -l 2>/dev/null || true
  if [[ $keep == yes ]]; then
    echo "the machine is left in $machine"
  else
    rm -rf --one-file-system "$scratch"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# debian_mirror: where this host's apt gets Debian from.
debian_mirror() {
  # shellcheck disable=SC2016 # apt's own placeholders
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1
}

make_machine() {
  local mirror source
  mirror=$(debian_mirror)
  logged debootstrap debootstrap --variant=minbase bookworm "$machine" ${mirror:+"$mirror"}
  if [[ -f /etc/apt/sources.list.d/debian.sources ]]; then
    cp /etc/apt/sources.list.d/debian.sources "$machine/etc/apt/sources.list.d/"
    rm -f "$machine/etc/apt/sources.list"
  fi
  for source in /etc/apt/apt.conf.d/*; do
    if grep -qE 'Proxy|Check-Valid-Until|CaInfo' "$source"; then
      cp "$source" "$machine/etc/apt/apt.conf.d/"
    fi
  done
  cp /etc/resolv.conf /etc/hosts "$machine/etc/"
  if compgen -G '/usr/local/share/ca-certificates/*' >/dev/null; then
    mkdir -p "$machine/usr/local/share/ca-certificates"
    cp -r /usr/local/share/ca-certificates/. "$machine/usr/local/share/ca-certificates/"
  fi
  mount -t proc proc "$machine/proc"
  mount --rbind /sys "$machine/sys"
  mount --rbind /dev "$machine/dev"
}

# pip_files: the host's pip configuration, in the order pip reads it.
pip_files() {
  local file
  for file in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" "${PIP_CONFIG_FILE:-}"; do
    if [[ -n $file && -f $file ]]; then
      echo "$file"
    fi
  done
}

# copy_pip: gives the machine the pip configuration, and mounts local folders it refers to. A folder
# called simple is an index, whose files may lie beside it.
copy_pip() {
  local file folder target
  while read -r file; do
    target=$machine${file/#$HOME/$home}
    mkdir -p "$(dirname "$target")"
    cp "$file" "$target"
  done < <(pip_files)
  while read -r folder; do
    if [[ $(basename "$folder") == simple ]]; then
      folder=$(dirname "$folder")
    fi
    if [[ -d $folder && ! -e $machine$folder ]]; then
      mkdir -p "$machine$folder"
      mount --bind -o ro "$folder" "$machine$folder"
    fi
  done < <({
    pip_files | xargs -r cat
    env | grep '^PIP_' || true
  } | grep -oE '(file://)?/[^ ,"]+' | sed 's|^file://||' | sort -u)
}

network=() # how commands are started there: (unshare --net) for without a network

# run_there NAME COMMAND…: runs a command in the machine's clone; its output goes to a log.
run_there() {
  local name=$1 settings=() variable enter=(chroot "$machine")
  shift
  for variable in $(compgen -e | grep -E '^PIP_|^(https?|no|all)_proxy$|^(HTTPS?|NO|ALL)_PROXY$'); do
    settings+=("$variable=${!variable}")
  done
  if [[ $as_user == yes ]]; then
    enter=(chroot --userspec=someone "$machine")
  fi
  # shellcheck disable=SC2016 # expanded there
  logged "fresh-$name" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME="$home" LANG=C.UTF-8 "${settings[@]}" "${network[@]}" "${enter[@]}" \
    bash -c 'cd ~/unisono && exec "$@"' there "$@"
}

# timed TEXT NAME COMMAND…: as run_there, and writes a row of figures. Sets `seconds`.
timed() {
  local text=$1 start=$SECONDS
  shift
  step "$text"
  run_there "$@"
  seconds=$((SECONDS - start))
  printf '| %s | %s |\n' "$text" "$(took "$seconds")" >>"$PROOF_FIGURES"
}

make_user() {
  run_there sudo bash -c 'apt-get -q update && apt-get -q -y install --no-install-recommends sudo' &&
    chroot "$machine" useradd --create-home someone &&
    echo 'someone ALL=(ALL) NOPASSWD: ALL' >"$machine/etc/sudoers.d/someone"
}

plan fresh-machine 7
step "make a Debian 12 with nothing on it"
make_machine
if [[ $as_user == yes ]]; then
  mkdir -p "$machine/root/unisono"
  as_user=no
  make_user
  as_user=yes
  home=/home/someone
fi
copy_pip
git diff --quiet HEAD || warn "uncommitted changes are not part of this proof"
git clone -q . "$machine$home/unisono"
if [[ $as_user == yes ]]; then
  chroot "$machine" chown -R someone: "$home"
fi

packages=$(chroot "$machine" dpkg-query -W | wc -l)
printf '| on a Debian 12 with %s packages | time |\n|---|---|\n' "$packages" >"$PROOF_FIGURES"
timed "scripts/demo.sh, first run" demo scripts/demo.sh "${options[@]}"
timed "scripts/test.sh, first run" test scripts/test.sh "${options[@]}"
timed "scripts/demo.sh again" demo-again scripts/demo.sh "${options[@]}"
timed "scripts/test.sh again" test-again scripts/test.sh "${options[@]}"
# Nothing is installed again: the same without any network.
network=(unshare --net)
timed "scripts/setup.sh again, without a network" setup-again scripts/setup.sh "${options[@]}"
((seconds <= 10)) || die "the second run took $(took "$seconds") to begin"

step "what was left out"
sort -u "$machine$home/unisono/build/left-out.txt"
if ((${#options[@]} == 0)) && [[ -s $machine$home/unisono/build/left-out.txt ]]; then
  die "something was left out"
fi
tail -n 25 "$LOGS/fresh-demo.log"
