// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/bare_weights.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::test {

/// How fast copies are compared with compute. A block copies in about 1 us and computes in as much
/// unless one of the two is slow; then it takes a thousand times as long.
struct speeds {
  bool slow_copy = false;
  bool slow_compute = false;

  [[nodiscard]] sim_options options() const {
    sim_options made;
    made.h2d_bandwidth = slow_copy ? 1e6 : 1e9;
    made.compute = slow_compute ? std::chrono::microseconds{1000} : std::chrono::microseconds{1};
    return made;
  }
};

/// A started runtime that streams bytes to `target`.
class streaming_run {
public:
  streaming_run(std::shared_ptr<device> target, std::shared_ptr<const bare_weights> weights,
                std::size_t slots)
      : subject_(std::move(target), {.slots = slots, .acquire_deadline = std::chrono::seconds{5}}) {
    REQUIRE(subject_.start());
    auto opened = subject_.enable(std::move(weights));
    REQUIRE(opened);
    gate_ = *opened;
  }

  [[nodiscard]] runtime& subject() noexcept { return subject_; }
  [[nodiscard]] block_gate& gate() noexcept { return *gate_; }
  [[nodiscard]] offload_state state() const { return subject_.state().value(); }

  /// Runs `order` as one request. Returns whether every block saw its bytes.
  [[nodiscard]] bool request(const byte_blocks& blocks, const std::vector<std::size_t>& order) {
    auto right = subject_.begin_request().has_value();
    for (const auto each : order)
      right = blocks.run(*gate_, each) && right;
    return subject_.end_request() && right;
  }

private:
  runtime subject_;
  std::shared_ptr<block_gate> gate_;
};

/// Returns the device as one that others may share without owning it.
[[nodiscard]] inline std::shared_ptr<sim_device> borrowed(sim_device& gpu) {
  return {&gpu, [](sim_device*) {}};
}

} // namespace ferry::test
