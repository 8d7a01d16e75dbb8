// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "streaming_run.hpp"
#include "support/edges.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace ferry {
namespace {

using test::borrowed;
using test::byte_blocks;
using test::speeds;
using test::streaming_run;

/// Returns the operations of `kind` that belong to a block, in the order of their start.
std::vector<operation_span> block_operations(const sim_device& gpu, operation_kind kind) {
  std::vector<operation_span> found;
  for (const auto& [span, stream, number] : gpu.timeline())
    if (span.kind == kind && span.tag.block != operation_tag::no_block)
      found.push_back(span);
  return found;
}

bool three_steps(sim_device& gpu) {
  const byte_blocks blocks{{4}, 1};
  streaming_run run{borrowed(gpu), blocks.pinned(gpu), 2};
  auto right = run.subject().begin_request().has_value();
  right = blocks.run_all(run.gate(), 3) && right;
  right = run.subject().end_request() && right;
  return run.subject().disable() && right;
}

TEST_CASE("a slot is overwritten only after its last use, however slow the compute is",
          "[field_cases][B01]") {
  const auto options = speeds{.slow_compute = true}.options();

  const auto whole = test::run_without_edge(options, "", three_steps);
  const auto loose = test::run_without_edge(options, fetch_waits_last_use.name, three_steps);

  CHECK(whole.right);
  CHECK(whole.races.empty());
  CHECK(loose.caught());
}

TEST_CASE("a released slot is poisoned by the compute stream, behind its last use",
          "[field_cases][B01]") {
  sim_device gpu{speeds{.slow_copy = true}.options()};
  const byte_blocks blocks{{4}, 0};
  streaming_run run{borrowed(gpu), blocks.pinned(gpu), 1};
  REQUIRE(blocks.run(run.gate(), 0));
  REQUIRE(run.subject().disable());

  const auto computes = block_operations(gpu, operation_kind::compute);
  const auto discards = block_operations(gpu, operation_kind::discard);
  REQUIRE(computes.size() == 1);
  REQUIRE(discards.size() == 1);
  CHECK(discards.front().start >= computes.front().end);
  CHECK(discards.front().stream == computes.front().stream);
}

TEST_CASE("a slot's last use is that of the compute stream, not of the stream that fills it",
          "[field_cases][B02]") {
  const auto slots = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  sim_device gpu{speeds{.slow_compute = true}.options()};
  const byte_blocks blocks{{5}, 0};
  streaming_run run{borrowed(gpu), blocks.pinned(gpu), slots};
  REQUIRE(run.subject().begin_request());
  REQUIRE(blocks.run_all(run.gate(), 3));
  REQUIRE(run.subject().end_request());

  const auto fetches = block_operations(gpu, operation_kind::copy);
  const auto uses = block_operations(gpu, operation_kind::compute);

  REQUIRE(uses.size() == 15);
  REQUIRE(fetches.size() >= 15);
  for (std::size_t i = 0; i + slots < fetches.size(); ++i) {
    CHECK(fetches[i].stream != uses[i].stream);
    CHECK(fetches[i + slots].start >= uses[i].end);
  }
}

/// Disables while fetches are under way and reuses the device memory at once.
bool reuse_after_disable(sim_device& gpu) {
  const byte_blocks blocks{{4}, 1};
  const auto owner = borrowed(gpu);
  streaming_run run{owner, blocks.pinned(gpu), 2};
  const auto taken = gpu.counters().device_bytes;
  auto right = blocks.run(run.gate(), 0);
  if (!run.subject().disable())
    return false;
  {
    const memory_block other{*owner, memory_kind::device, taken};
    stream compute{*owner, "other"};
    const std::array writes{other.bytes()};
    compute.compute({.writes = writes, .tag = {.what = "fill"}});
    compute.synchronize({"test_end"});
  }
  const auto again = run.subject().enable(blocks.pinned(gpu));
  right = again && blocks.run_all(**again, 2) && right;
  return run.subject().disable() && gpu.counters().d2h_bytes == 0 && right;
}

TEST_CASE("device memory is given back behind every copy, and nothing is copied back",
          "[field_cases][B03]") {
  const auto options = GENERATE(speeds{.slow_copy = true}, speeds{.slow_compute = true}).options();

  const auto whole = test::run_without_edge(options, "", reuse_after_disable);
  const auto loose =
      test::run_without_edge(options, drain_before_restore.name, reuse_after_disable);

  CHECK(whole.right);
  CHECK(whole.races.empty());
  CHECK(loose.caught());
}

/// Disables while fetches are under way, and fills as much pinned memory as the sources had.
bool reuse_sources(sim_device& gpu) {
  const byte_blocks blocks{{4}, 0};
  const auto owner = borrowed(gpu);
  streaming_run run{owner, blocks.pinned(gpu), 2};
  auto right = blocks.run(run.gate(), 0);
  if (!run.subject().disable() || gpu.counters().pinned_bytes != 0)
    return false;
  for (const auto& block : blocks.weights()->plan.blocks) {
    const memory_block other{*owner, memory_kind::pinned, block.layout.bytes};
    gpu.host_write(other.bytes(), {.what = "fill"});
    std::ranges::fill(other.bytes(), std::byte{7});
  }
  return right;
}

TEST_CASE("pinned sources live until the copies that read them have ended", "[field_cases][B09]") {
  const auto options = speeds{.slow_copy = true}.options();

  const auto whole = test::run_without_edge(options, "", reuse_sources);
  const auto loose = test::run_without_edge(options, drain_before_restore.name, reuse_sources);

  CHECK(whole.right);
  CHECK(whole.races.empty());
  CHECK(loose.caught());
}

TEST_CASE("slots of the host device are reused without a byte of another block",
          "[field_cases][B01][B03]") {
  const auto slots = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  const byte_blocks blocks{{7}, 1};
  const auto machine = std::make_shared<host_device>(host_device_options{.memory = 1 << 20});
  streaming_run run{machine, blocks.weights(), slots};

  for (int i = 0; i != 20; ++i) {
    REQUIRE(run.request(blocks, {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6}));
  }
  REQUIRE(run.subject().disable());

  CHECK(machine->counters().d2h_bytes == 0);
  CHECK(machine->counters().device_bytes == 0);
}

} // namespace
} // namespace ferry
