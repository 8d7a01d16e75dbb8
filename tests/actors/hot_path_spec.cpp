// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/faults.hpp"

#include <chrono>
#include <memory>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

/// A started runtime over a simulated device with byte blocks enabled.
struct streaming_run {
  explicit streaming_run(const byte_blocks& blocks, std::size_t slots)
      : gpu(std::make_shared<sim_device>(sim_options{})),
        subject(gpu, {.slots = slots, .acquire_deadline = 5s}) {
    REQUIRE(subject.start());
    auto opened = subject.enable(blocks.pinned(*gpu));
    REQUIRE(opened);
    gate = *opened;
  }

  std::shared_ptr<sim_device> gpu;
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

TEST_CASE("every pass sees the right bytes, with any number of slots and no race",
          "[actors][hot_path]") {
  const auto slots = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  const byte_blocks blocks{{7}, 2};
  streaming_run run{blocks, slots};

  REQUIRE(run.subject.begin_request());
  const auto right = blocks.run_all(*run.gate, 6);
  REQUIRE(run.subject.end_request());

  CHECK(right);
  CHECK(run.gpu->race_count() == 0);
  REQUIRE(run.subject.disable());
  CHECK(run.gpu->race_count() == 0);
}

} // namespace
} // namespace ferry
