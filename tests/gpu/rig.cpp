// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/rig.hpp"

#include "gpu/kernels.hpp"

#include <cstring>

namespace ferry::test {
namespace {

constexpr unsigned char poison = 0xff;
constexpr wait_edge test_end{"test_end"};

block_id id_of(std::size_t block) {
  return block_id{static_cast<std::uint32_t>(block)};
}

} // namespace

std::shared_ptr<cuda_device> first_gpu() {
  auto opened = open_cuda_device({.index = 0});
  if (!opened)
    throw ferry_error{opened.error()};
  load_kernels();
  return std::move(*opened);
}

model_streams::model_streams(device& owner, std::size_t count) {
  for (std::size_t i = 0; i != count; ++i)
    streams_.emplace_back(owner, "model " + std::to_string(i));
}

void model_streams::synchronize() {
  for (auto& each : streams_)
    each.synchronize(test_end);
}

kernel_blocks::kernel_blocks(cuda_device& gpu, const byte_blocks& blocks, model_streams& streams)
    : gpu_(gpu), blocks_(blocks), streams_(streams),
      wrong_(gpu, memory_kind::device, sizeof(unsigned long long)),
      told_(gpu, memory_kind::pinned, sizeof(unsigned long long)) {
  fill(gpu_.native_stream(streams_.current()), wrong_.bytes().data(), wrong_.size(), 0);
  streams_.synchronize();
}

void kernel_blocks::run(block_gate& gate, std::size_t block) {
  const auto bytes = gate.acquire(id_of(block));
  auto* on = gpu_.native_stream(streams_.current());
  count_others(on, bytes.data(), bytes.size(), blocks_.value_of(block),
               reinterpret_cast<unsigned long long*>(wrong_.bytes().data()));
  fill(on, bytes.data(), bytes.size(), poison);
  gate.release(id_of(block));
}

void kernel_blocks::run_all(block_gate& gate, std::size_t passes) {
  for (std::size_t pass = 0; pass != passes; ++pass)
    for (std::size_t block = 0; block != blocks_.size(); ++block)
      run(gate, block);
}

std::uint64_t kernel_blocks::wrong_bytes() {
  streams_.synchronize();
  stream copies{gpu_, "tell"};
  copies.copy({.target = told_.bytes(),
               .source = wrong_.bytes(),
               .to = memory_kind::pinned,
               .from = memory_kind::device});
  copies.synchronize(test_end);
  unsigned long long wrong = 0;
  std::memcpy(&wrong, told_.bytes().data(), sizeof(wrong));
  return wrong;
}

} // namespace ferry::test
