// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/overlap.hpp>
#include <ferry/offload/slot_depth.hpp>

#include "support/catch.hpp"

#include <chrono>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using uses = std::vector<block_use>;

uses repeated(const uses& pattern, std::size_t times) {
  uses all;
  for (std::size_t i = 0; i != times; ++i)
    all.insert(all.end(), pattern.begin(), pattern.end());
  return all;
}

TEST_CASE("a block waits for its fetch, and a fetch for the link and a slot", "[offload][depth]") {
  const uses three{{4ns, 10ns}, {8ns, 3ns}, {5ns, 2ns}};

  CHECK(time_in_slots(three, 1) == 32ns);
  CHECK(time_in_slots(three, 2) == 21ns);
  CHECK(time_in_slots(three, 3) == 19ns);
  CHECK(time_in_slots({}, 2) == 0ns);
}

TEST_CASE("another slot is worth having where transfers are shorter than compute but vary",
          "[offload][depth]") {
  const auto jittery = repeated({{2ns, 10ns}, {25ns, 10ns}, {2ns, 10ns}, {2ns, 10ns}}, 30);

  CHECK(slots_worth_having(jittery, 2, 4) == 4);
  CHECK(slots_worth_having(jittery, 2, 3) == 3);
  CHECK(slots_worth_having(jittery, 2, 2) == 2);
}

TEST_CASE("another slot is not worth having where nothing varies or the link is the limit",
          "[offload][depth]") {
  CHECK(slots_worth_having(repeated({{9ns, 10ns}}, 100), 2, 4) == 2);
  CHECK(slots_worth_having(repeated({{20ns, 10ns}}, 100), 2, 4) == 2);
  CHECK(slots_worth_having({}, 2, 4) == 2);
}

operation_span copy(std::uint64_t ticket, nanoseconds start, nanoseconds end) {
  return {.kind = operation_kind::copy,
          .stream = {},
          .tag = {.what = "fetch", .block = 0, .ticket = ticket},
          .bytes = 8,
          .enqueued = {},
          .start = start,
          .end = end};
}

operation_span mark(const char* what, std::uint64_t ticket, nanoseconds at) {
  return {.kind = operation_kind::mark,
          .stream = {},
          .tag = {.what = what, .block = 0, .ticket = ticket},
          .bytes = 0,
          .enqueued = {},
          .start = at,
          .end = at};
}

TEST_CASE("a use takes what its copies take together, and the time between its marks",
          "[offload][depth]") {
  use_recorder seen;
  for (std::uint64_t n = 1; n <= use_recorder::least_uses; ++n) {
    seen.on_operation(copy(n, 0ns, 4ns));
    seen.on_operation(copy(n, 10ns, 13ns));
    seen.on_operation(copy(n + 1000, 10ns, 99ns)); // Never used.
    seen.on_operation(mark(mark_acquire, n, 10ns));
    seen.on_operation(mark(mark_begin, n, 20ns));
    CHECK(seen.take().empty());
    seen.on_operation(mark(mark_end, n, 25ns));
  }
  seen.on_operation(mark("step ends", 0, 25ns));

  CHECK(seen.take() == uses(use_recorder::least_uses, block_use{7ns, 5ns}));
  CHECK(seen.take().empty());
}

} // namespace
} // namespace ferry
