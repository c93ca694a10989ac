#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz with clang (preset fuzz) and runs each for some seconds; a crash, a leak, a hang or
# undefined behaviour fails, and the input that did it stays in build-fuzz/fuzz/.
#
#   tools/dev/fuzz.sh [SECONDS [NAME...]]     60 seconds, all targets
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/dev/debian.sh

seconds=${1-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "'$seconds' is no number of seconds"
shift $(($# > 0))
command -v clang++ >/dev/null || die "libFuzzer comes with clang, which is not here (Debian: apt-get install clang)"

names=("$@")
if ((${#names[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cpp; do
    [[ -e $source ]] && names+=("$(basename "$source" _fuzz.cpp)")
  done
fi
if ((${#names[@]} == 0)); then
  echo "skipped: no fuzz targets in tests/fuzz"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

configure_and_build fuzz "${names[@]/%/_fuzz}"
passed=0 failed=0
for name in "${names[@]}"; do
  corpus=build-fuzz/fuzz/corpus-$name options=()
  mkdir -p "$corpus"
  seeds=("$corpus")
  [[ -d tests/fuzz/corpus/$name ]] && seeds+=("tests/fuzz/corpus/$name")
  if [[ -f tests/fuzz/${name}_seeds.py ]]; then
    python3 "tests/fuzz/${name}_seeds.py" "build-fuzz/fuzz/seeds-$name"
    seeds+=("build-fuzz/fuzz/seeds-$name")
  fi
  [[ -f tests/fuzz/$name.dict ]] && options+=("-dict=tests/fuzz/$name.dict")
  say "fuzzing $name for $seconds s"
  if "build-fuzz/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build-fuzz/fuzz/$name-" "${options[@]}" "${seeds[@]}" </dev/null; then
    ((passed += 1))
  else
    ((failed += 1))
    say "$name failed; the input is build-fuzz/fuzz/$name-*"
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
