// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/event.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/platform/stream.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ferry::test {

/// The smallest pipeline that streams: one slot, its two events, and a source for each block. The
/// tests call its parts in the right order or in a wrong one.
struct streamed_slot {
  static constexpr std::size_t size = 512;
  static constexpr wait_edge ready_edge{"compute waits for the copy"};
  static constexpr wait_edge reuse_edge{"copy waits for the last use"};
  static constexpr wait_edge done_edge{"host waits for the end"};

  explicit streamed_slot(const sim_options& options)
      : gpu(options), slot(gpu, memory_kind::device, size), staging(gpu, memory_kind::pinned, size),
        copies(gpu, "copy"), compute(gpu, "compute"), ready(gpu), last_use(gpu) {}

  /// Writes `value` into all of the staging memory.
  void stage(int value) {
    gpu.host_write(staging.bytes(), {"stage"});
    std::ranges::fill(staging.bytes(), std::byte(value));
  }

  void fetch(std::uint32_t block, const_bytes source, memory_kind from) {
    copies.copy({slot.bytes(), source, memory_kind::device, from, {"fetch", block}});
  }
  void fetch_staged(std::uint32_t block) { fetch(block, staging.bytes(), memory_kind::pinned); }

  /// Announces the use of the slot and returns what a body would see there.
  [[nodiscard]] int use(std::uint32_t block) {
    auto reads = std::array{const_bytes{slot.bytes()}};
    compute.compute({reads, {}, {}, {"use", block}});
    compute.settle();
    return seen();
  }

  [[nodiscard]] int seen() const { return std::to_integer<int>(slot.bytes().front()); }

  void finish() {
    compute.synchronize(done_edge);
    copies.synchronize(done_edge);
  }

  sim_device gpu;
  memory_block slot;
  memory_block staging;
  stream copies;
  stream compute;
  event ready;
  event last_use;
};

inline constexpr int poison_value = 0xFF;

} // namespace ferry::test
