// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_gate.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "support/byte_blocks.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace ferry::test {

/// Returns the first GPU, with every kernel loaded. Suites that use this are skipped where there is
/// none.
[[nodiscard]] std::shared_ptr<cuda_device> first_gpu();

/// Streams of a model, one of which is current.
class model_streams final : public caller_streams {
public:
  model_streams(device& owner, std::size_t count);

  [[nodiscard]] stream_id current() override { return streams_[now_].id(); }
  void change() { now_ = (now_ + 1) % streams_.size(); }
  void synchronize();

private:
  std::deque<stream> streams_;
  std::size_t now_ = 0;
};

/// Byte blocks whose bodies are kernels: each counts the bytes that are not its block's and then
/// poisons what it has read, so that whoever reads too early or too late sees poison.
class kernel_blocks {
public:
  kernel_blocks(cuda_device& gpu, const byte_blocks& blocks, model_streams& streams);

  void run(block_gate& gate, std::size_t block);
  void run_all(block_gate& gate, std::size_t passes);

  /// Returns how many bytes were wrong so far, once everything has run.
  [[nodiscard]] std::uint64_t wrong_bytes();

private:
  cuda_device& gpu_;
  const byte_blocks& blocks_;
  model_streams& streams_;
  memory_block wrong_;
  memory_block told_;
};

} // namespace ferry::test
