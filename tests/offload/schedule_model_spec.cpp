// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/schedule_model.hpp>

#include "support/catch.hpp"

#include <chrono>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using costs = std::vector<block_cost>;

block_cost streamed(nanoseconds copy, nanoseconds compute) {
  return {.compute = compute, .pieces = {{.copy = copy, .gather = {}}}};
}

block_cost resident(nanoseconds compute) {
  return {.compute = compute, .pieces = {}};
}

block_cost gathered(nanoseconds copy, nanoseconds gather, nanoseconds compute,
                    std::size_t pieces = 1) {
  return {.compute = compute,
          .pieces = std::vector<piece_cost>(pieces, {.copy = copy, .gather = gather})};
}

/// Blocks of which those from `first` on, every `stride`th, are resident.
costs with_residents(std::size_t count, block_cost each, std::size_t resident_count,
                     std::size_t stride) {
  costs all(count, each);
  for (std::size_t i = 0; i != resident_count; ++i)
    all[i * stride].pieces.clear();
  return all;
}

TEST_CASE("the first block is waited for from end to end, the next as far as compute is short",
          "[offload][schedule]") {
  schedule_model model({.slots = 2});

  CHECK(model.run(streamed(4ns, 10ns)) ==
        block_times{.fetched = 0ns, .ready = 4ns, .begun = 4ns, .done = 14ns, .waited = 4ns});
  CHECK(model.run(streamed(12ns, 3ns)) ==
        block_times{.fetched = 4ns, .ready = 16ns, .begun = 16ns, .done = 19ns, .waited = 2ns});
  CHECK(model.run(streamed(1ns, 3ns)) ==
        block_times{.fetched = 16ns, .ready = 17ns, .begun = 19ns, .done = 22ns, .waited = 0ns});
  CHECK(model.end() == 22ns);
}

TEST_CASE("with one slot a block is fetched once the one before has run", "[offload][schedule]") {
  schedule_model model({.slots = 1});

  model.run(streamed(4ns, 10ns));
  CHECK(model.run(streamed(5ns, 10ns)).fetched == 14ns);
}

TEST_CASE("residents are brought first and wait for no slot", "[offload][schedule]") {
  schedule_model model({.slots = 1});
  model.bring_residents(30ns);

  CHECK(model.run(resident(5ns)).begun == 30ns);
  CHECK(model.run(streamed(10ns, 5ns)).fetched == 30ns);
  CHECK(model.run(resident(5ns)).waited == 0ns);
  CHECK(model.run(streamed(10ns, 5ns)).fetched == 45ns);
}

// performance-model.md 6.4: 40 blocks that compute for 10 ms and come in 20.
TEST_CASE("a leading run of residents lets the link idle, the same number spread does not",
          "[offload][schedule]") {
  const auto [residents, leading, spread] = GENERATE(table<std::size_t, nanoseconds, nanoseconds>(
      {{0, 800ms, 800ms}, {4, 740ms, 720ms}, {10, 680ms, 600ms}, {20, 580ms, 400ms}}));
  const auto each = streamed(20ms, 10ms);
  const auto stride = residents == 0 ? 1 : 40 / residents;

  CHECK(steady_pass(with_residents(40, each, residents, 1), {}) == leading);
  CHECK(steady_pass(with_residents(40, each, residents, stride), {}) == spread);
}

TEST_CASE("passes that share a fetch lengthen compute alone", "[offload][schedule]") {
  const costs blocks(10, streamed(4ms, 1ms));

  CHECK(steady_pass(blocks, {.passes = 1}) == 40ms);
  CHECK(steady_pass(blocks, {.passes = 4}) == 40ms);
  CHECK(steady_pass(blocks, {.passes = 8}) == 80ms);
}

TEST_CASE("a gathered block takes the longest of its parts, or copy and gather where they take "
          "turns",
          "[offload][schedule]") {
  const costs blocks(10, gathered(3ms, 2ms, 1ms));

  CHECK(steady_pass(blocks, {}) == 30ms);
  CHECK(steady_pass(blocks, {.pipelining = gather_pipelining::back_to_back}) == 50ms);
}

TEST_CASE("chunks bring the first block sooner", "[offload][schedule]") {
  schedule_model whole({});
  schedule_model chunked({});

  CHECK(whole.run(gathered(4ms, 4ms, 1ms)).ready == 8ms);
  CHECK(chunked.run(gathered(1ms, 1ms, 1ms, 4)).ready == 5ms);
}

TEST_CASE("no more pieces are copied ahead of their gathers than there are inputs",
          "[offload][schedule]") {
  schedule_model model({});

  model.run(gathered(1ms, 10ms, 0ms));
  model.run(gathered(1ms, 10ms, 0ms));
  CHECK(model.run(gathered(1ms, 10ms, 0ms)).fetched == 11ms);
}

TEST_CASE("what a rank copies alone comes after what was gathered before it",
          "[offload][schedule]") {
  schedule_model model({.slots = 3});

  model.run(gathered(1ms, 10ms, 0ms));
  CHECK(model.run(streamed(1ms, 0ms)).fetched == 11ms);
  CHECK(model.run(streamed(1ms, 0ms)).fetched == 12ms);
}

TEST_CASE("the bounds are the sums of one pass, those of resident blocks without copies",
          "[offload][schedule]") {
  const costs blocks{gathered(3ms, 2ms, 1ms, 2), resident(5ms), gathered(1ms, 4ms, 2ms)};
  const auto overlapped = bounds_of(blocks, {});
  const auto back_to_back = bounds_of(blocks, {.pipelining = gather_pipelining::back_to_back});

  CHECK(overlapped.compute == 8ms);
  CHECK(overlapped.copies == 7ms);
  CHECK(overlapped.gathers == 8ms);
  CHECK(overlapped.least() == 8ms);
  CHECK(overlapped.serial() == 23ms);
  CHECK(back_to_back.least() == 15ms);
  CHECK(bounds_of(blocks, {.passes = 2}).compute == 16ms);
}

} // namespace
} // namespace ferry
