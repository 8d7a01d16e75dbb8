#!/usr/bin/env bash
# Sets up a fresh machine, builds everything and runs the whole suite.
#
#   ./test.sh          release build, all tests
#   ./test.sh --ci     the same, and: format, header self-containment, sanitizer builds
set -euo pipefail
cd "$(dirname "$0")"
source cmake/setup.sh

ci=false
case "${1:-}" in
    "") ;;
    --ci) ci=true ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) printf 'test.sh: %s is no option; expected --ci or nothing\n' "$1" >&2; exit 2 ;;
esac

check_format() {
    git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 --dry-run --Werror
}

build() { # preset, targets
    local preset=$1
    shift
    configure "$preset"
    cmake --build --preset "$preset" --target "$@"
}

run_tests() { # preset, further ctest arguments
    local preset=$1
    shift
    ctest --preset "$preset" -j 2 "$@"
}

# A sanitizer's own memory would count where a test measures what becomes resident.
run_sanitized_tests() { # preset
    run_tests "$1" -LE package -E 'becom(e|ing) resident'
}

stage "Set-up" set_up
if $ci; then
    stage "Set-up of the checks" install_packages clang-format-19
    stage "Format" check_format
fi
stage "Build (release)" build release all
if $ci; then
    stage "Headers compile alone" cmake --build --preset release --target all_verify_interface_header_sets
fi
stage "Tests (release)" run_tests release
if $ci; then
    stage "Build (address and undefined-behaviour sanitizers)" build asan all
    stage "Tests (address and undefined-behaviour sanitizers)" run_sanitized_tests asan
    stage "Build (thread sanitizer)" build tsan all
    stage "Tests (thread sanitizer)" run_sanitized_tests tsan
fi
print_times
