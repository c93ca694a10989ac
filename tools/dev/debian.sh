# What tools/quickstart, tools/test and .ci/run share: saying what happens, failing with a message, and installing the Debian
# packages that are missing. Sourced by bash, never run.

say() { printf '==> %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# What a build needs, and what the tests need on top.
build_packages=(cmake ninja-build g++ pkg-config libcli11-dev libfmt-dev nlohmann-json3-dev libpcre2-dev libedit-dev python3 python3-pip)
test_packages=(catch2 libbenchmark-dev)

# need_packages NAME...: installs those that are missing and says which; nothing at all where none is.
need_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "this is not Debian, so nothing is installed here. Needed, by their Debian names: $*"
    return
  fi
  local name missing=() root=()
  for name in "$@"; do
    # A package may also be there under the name of another that provides it (pkg-config is pkgconf's on newer systems).
    [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) == "install ok installed" ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "these packages are missing, and only root can install them: ${missing[*]}
  run as root: apt-get install ${missing[*]}"
    root=(sudo)
  fi
  say "installing the Debian packages that are missing: ${missing[*]}"
  "${root[@]}" apt-get update -q >&2 || die "apt-get update failed; is the network reachable?"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" </dev/null >&2 ||
    die "apt-get could not install: ${missing[*]}"
}

# configure_and_build PRESET [TARGET...]: all targets of the preset when none is named.
configure_and_build() {
  local preset=$1 targets=()
  shift
  (($#)) && targets=(--target "$@")
  say "configuring the preset '$preset'"
  cmake --preset "$preset" >&2 || die "cmake could not configure the preset '$preset'; its messages are above
  (a build folder made elsewhere or by another generator is cured by deleting it)"
  say "building the preset '$preset'"
  cmake --build --preset "$preset" "${targets[@]}" >&2 || die "the build of the preset '$preset' failed; the compiler's messages are above"
}
