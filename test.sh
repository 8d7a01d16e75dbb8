#!/usr/bin/env bash
# Sets up a fresh machine, builds everything and runs the whole suite.
#
#   ./test.sh          release build, all tests
#   ./test.sh --ci     the same, and: format, header self-containment, sanitizer builds
#   ./test.sh --gpu    the tests and the performance goals that need a GPU, on one; docs/gpu.md
#   ./test.sh --peers  what Python users have today, installed beside and compared on this CPU
set -euo pipefail
cd "$(dirname "$0")"
source cmake/setup.sh

if [ $# -gt 1 ]; then
    printf 'test.sh: takes one option, got %s: %s\n' "$#" "$*" >&2
    exit 2
fi
ci=false
gpu=false
peers=false
case "${1:-}" in
    "") ;;
    --ci) ci=true ;;
    --gpu) gpu=true ;;
    --peers) peers=true ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) printf 'test.sh: %s is no option; expected --ci, --gpu, --peers or nothing\n' "$1" >&2; exit 2 ;;
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

# Adds up what the fakes of CUDA and NCCL say at the end of each test.
print_fake_calls() {
    awk '/^fake (CUDA|NCCL): [0-9]+ calls$/ { split($2, name, ":"); calls[name[1]] += $3 }
         END { for (fake in calls) printf "the fake of %s checked %d calls\n", fake, calls[fake] }' \
        build/release/Testing/Temporary/LastTest.log
}

# A sanitizer's own memory would count where a test measures what becomes resident.
run_sanitized_tests() { # preset
    run_tests "$1" -LE package -E 'becom(e|ing) resident'
}

# Before anything is built. The driver's own words come once there is a program that can ask for them.
require_driver() {
    [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] && return
    printf 'test.sh --gpu: this machine has no GPU that a driver of NVIDIA serves (no /dev/nvidiactl).\n' >&2
    printf 'Run ./test.sh for everything that needs none; docs/gpu.md says what a GPU needs.\n' >&2
    return 1
}

require_gpu() {
    local listing
    listing=$(build/release/bin/ferry devices | grep '^cuda')
    printf '%s\n' "$listing"
    grep -q '^cuda:0 *available' <<<"$listing" && return
    printf 'test.sh --gpu: there is no GPU that Ferry can open; docs/gpu.md says what one needs.\n' >&2
    return 1
}

build_for_gpu() {
    build release ferry_program ferry_bench kernels_suite gpu_suite gpu_runtime_suite gpu_torch_suite || {
        printf 'The GPU tests need a CUDA compiler (nvcc); docs/gpu.md says which.\n' >&2
        return 1
    }
    # A suite that is not built has no tests and no label.
    if cmake --build --preset release --target help | grep '^gpu_ranks_suite:' >/dev/null; then
        cmake --build --preset release --target gpu_ranks_suite
    else
        printf 'There are no tests of ranks on GPUs: NCCL was left out, and configuring said why.\n'
    fi
}

# Prints the tests that were skipped and why, as CTest's log of its last run has them.
skipped_tests() { # log
    awk '/^[0-9]+\/[0-9]+ Testing: / { sub(/^[^:]*: /, ""); test = $0 }
         /^ferry test skipped: / { sub(/^[^:]*: /, ""); print test ": " $0 }' "$1"
}

# A skipped test passes for CTest, and would be a hole here unless it needs more GPUs than there are,
# what this GPU cannot do, or NCCL where it was left out.
run_gpu_tests() {
    run_tests release -L '^(gpu|kernels)' -j 1
    local skipped
    skipped=$(skipped_tests build/release/Testing/Temporary/LastTest.log)
    [ -z "$skipped" ] || printf 'skipped  %s\n' "${skipped//$'\n'/$'\nskipped  '}"
    ! grep -vE '^$|: (needs [0-9]+ GPUs, found [0-9]+|this GPU has no read-only registration|NCCL backend left out.*)$' <<<"$skipped" >/dev/null || {
        printf 'Tests were skipped although there is a GPU.\n' >&2
        return 1
    }
}

check_memory_on_gpu() {
    local tool suite=build/release/tests/gpu_runtime_suite
    tool=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer) || {
        printf 'compute-sanitizer is neither in PATH nor in the CUDA toolkit; it was left out.\n'
        return
    }
    # The child that a test starts to lose its GPU is not to be looked at.
    local look=("$tool" --target-processes application-only --error-exitcode 1)
    "${look[@]}" --tool memcheck "$suite"
    "${look[@]}" --tool initcheck --track-unused-memory no "$suite" "~[faults]"
}

measure_on_gpu() {
    local driver
    driver=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
    printf 'machine  %s, %s, %s cores, %s\n' "$(uname -n)" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
        "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
    printf 'gpu      %s\n' "${driver:-$(build/release/bin/ferry devices | grep '^cuda:0')}"
    printf 'date     %s, %s\n' "$(date -u +%F)" "$(git rev-parse --short HEAD 2>/dev/null || true)"
    printf 'P9 and P10 are of the simulated and the host device, the others of the GPU.\n\n'
    build/release/bin/ferry_bench --json build/release/gpu-goals.json \
        P9 P10 P11 P12 P13 P14 P15 | tee build/release/gpu-goals.log
    ! grep -q 'skipped' build/release/gpu-goals.log || {
        printf 'Goals were skipped although there is a GPU.\n' >&2
        return 1
    }
}

# An environment of its own: what they need is not what Ferry is built with.
install_peers() {
    [ -x .cache/peers/bin/python ] || python3 -m venv .cache/peers
    .cache/peers/bin/pip install -q "torch==$ferry_torch_version" numpy \
        diffusers==0.42.1 accelerate==1.15.0 safetensors==0.8.0
}

compare_with_peers() {
    printf 'machine  %s, %s cores, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
        "$(nproc)" "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
    printf 'date     %s, %s\n\n' "$(date -u +%F)" "$(git rev-parse --short HEAD 2>/dev/null || true)"
    build/release/bin/ferry_bench --json build/release/peers.json P16
}

if $peers; then
    stage "Set-up" set_up
    stage "Peers" install_peers
    stage "Build (release)" build release ferry_bench
    stage "Comparison" compare_with_peers
    print_times
    exit
fi
if $gpu; then
    stage "Driver" require_driver
    stage "Set-up" set_up
    stage "Build (release)" build_for_gpu
    stage "GPU" require_gpu
    stage "Tests on the GPU" run_gpu_tests
    stage "Memory checks on the GPU" check_memory_on_gpu
    stage "Goals on the GPU" measure_on_gpu
    print_times
    exit
fi

stage "Set-up" set_up
stage "Browser for the tests" install_browser
if $ci; then
    stage "Set-up of the checks" install_packages clang-format-19
    stage "Format" check_format
fi
stage "Build (release)" build release all
if $ci; then
    stage "Headers compile alone" cmake --build --preset release --target all_verify_interface_header_sets
fi
stage "Tests (release)" run_tests release
stage "Calls on the fakes" print_fake_calls
if $ci; then
    stage "Build (address and undefined-behaviour sanitizers)" build asan all
    stage "Tests (address and undefined-behaviour sanitizers)" run_sanitized_tests asan
    stage "Build (thread sanitizer)" build tsan all
    stage "Tests (thread sanitizer)" run_sanitized_tests tsan
fi
print_times
