#!/usr/bin/env bash
# Sets up a fresh machine, builds Ferry, and runs a pipeline whose weights are more than eight times
# larger than the device memory it may use: once with everything on the device, once streamed.
set -euo pipefail
cd "$(dirname "$0")"
source cmake/setup.sh

build() {
    configure release
    cmake --build --preset release --target ferry_program
}

run_demo() {
    local ferry=build/release/bin/ferry out=out/demo
    rm -rf "$out"
    mkdir -p "$out"
    "$ferry" checkpoint wan "$out/checkpoint" --blocks 32 --hidden 768 --dtype bf16 --seed 1
    "$ferry" run "$out/checkpoint" \
        --config '{"mode":"layer","components":["dit","text_encoder"]}' \
        --device host --device-memory 64MiB --compare-resident \
        --steps 2 --size 64x64 --frames 1 \
        --output "$out" --trace "$out/trace.json" --report "$out/report.json"
    printf '\nLeft in %s: picture.png, latents.safetensors, report.json, trace.json (open it in Perfetto).\n' "$out"
}

stage "Set-up" set_up
stage "Build" build
stage "Demo" run_demo
print_times
