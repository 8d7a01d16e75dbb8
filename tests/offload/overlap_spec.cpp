// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/overlap.hpp>

#include "support/catch.hpp"

#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;

operation_span mark(const char* what, nanoseconds at) {
  return {.kind = operation_kind::mark,
          .stream = stream_id{1},
          .tag = {.what = what, .block = 0},
          .bytes = 0,
          .enqueued = at,
          .start = at,
          .end = at};
}

operation_span transfer(operation_kind kind, nanoseconds start, nanoseconds end) {
  return {.kind = kind,
          .stream = stream_id{2},
          .tag = {.what = "fetch", .block = 0},
          .bytes = 1,
          .enqueued = start,
          .start = start,
          .end = end};
}

operation_span copy(nanoseconds start, nanoseconds end) {
  return transfer(operation_kind::copy, start, end);
}

operation_span gather(nanoseconds start, nanoseconds end) {
  return transfer(operation_kind::gather, start, end);
}

TEST_CASE("a fetch that ends before its block is asked for is hidden whole", "[offload][overlap]") {
  overlap_meter meter;

  meter.add(copy(0ms, 8ms));
  meter.add(mark(mark_acquire, 10ms));
  meter.add(mark(mark_begin, 10ms));
  meter.add(mark(mark_end, 20ms));

  CHECK(meter.summary().blocks == 1);
  CHECK(meter.summary().compute == 10ms);
  CHECK(meter.summary().transfer == 8ms);
  CHECK(meter.summary().exposed_wait == 0ms);
  CHECK(meter.summary().lower_bound() == 10ms);
  CHECK(meter.summary().efficiency() == 1.0);
}

TEST_CASE("a fetch that its block waits for from end to end hides nothing", "[offload][overlap]") {
  overlap_meter meter;

  meter.add(mark(mark_acquire, 0ms));
  meter.add(copy(0ms, 8ms));
  meter.add(mark(mark_begin, 8ms));
  meter.add(mark(mark_end, 18ms));

  CHECK(meter.summary().exposed_wait == 8ms);
  CHECK(meter.summary().efficiency() == 0.0);
}

TEST_CASE("a gather is a transfer on a queue of its own", "[offload][overlap]") {
  overlap_meter meter;

  meter.add(copy(0ms, 4ms));
  meter.add(gather(4ms, 14ms));
  meter.add(mark(mark_acquire, 8ms));
  meter.add(mark(mark_begin, 14ms));
  meter.add(mark(mark_end, 26ms));

  const auto& all = meter.summary();
  CHECK(all.transfer == 4ms);
  CHECK(all.gather == 10ms);
  CHECK(all.exposed_wait == 6ms);
  CHECK(all.lower_bound() == 12ms);
  CHECK(all.efficiency() == Approx(8.0 / 14.0)); // (26 - 18) / (26 - 12)
}

TEST_CASE("the longest of compute and of the copies and gathers beside it bounds the time",
          "[offload][overlap]") {
  const auto longest = GENERATE(0, 1, 2);
  const auto of = [&](int which) { return which == longest ? 7ms : 3ms; };
  const overlap_summary all{.blocks = 1,
                            .compute = of(0),
                            .transfer = 30ms,
                            .gather = 20ms,
                            .exposed_wait = 0ms,
                            .transfer_beside = of(1),
                            .gather_beside = of(2)};

  CHECK(all.lower_bound() == 7ms);
}

TEST_CASE(
    "what was copied before its block was asked for is not in the bound, so that none is beaten",
    "[offload][overlap]") {
  overlap_meter meter;

  meter.add(copy(0ms, 40ms));
  meter.add(mark(mark_acquire, 30ms));
  meter.add(mark(mark_begin, 40ms));
  meter.add(mark(mark_end, 42ms));
  meter.add(copy(40ms, 80ms)); // For whoever comes next.

  const auto all = meter.summary();
  CHECK(all.transfer == 80ms);
  CHECK(all.observed() == 12ms);
  CHECK(all.transfer_beside == 12ms);
  CHECK(all.lower_bound() == 12ms);
}

TEST_CASE("in a step all that compute does between streamed blocks is compute",
          "[offload][overlap]") {
  overlap_meter meter;
  const auto use = [&](nanoseconds asked, nanoseconds begun, nanoseconds ended) {
    meter.add(mark(mark_acquire, asked));
    meter.add(mark(mark_begin, begun));
    meter.add(mark(mark_end, ended));
  };
  auto step = mark(mark_step_begins, 10ms);
  step.tag.block = operation_tag::no_block;

  use(0ms, 0ms, 1ms);
  meter.add(step);
  use(12ms, 13ms, 15ms);
  use(18ms, 18ms, 20ms);
  step.tag.what = mark_step_ended;
  step.end = 25ms;
  meter.add(step);
  use(30ms, 30ms, 31ms);

  CHECK(meter.summary().compute == 1ms + (2 + 2 + 3 + 2 + 5) * 1ms + 1ms);
  CHECK(meter.summary().exposed_wait == 1ms);
}

TEST_CASE("the time that two lists have in common does not depend on which is told first",
          "[offload][overlap]") {
  const std::vector<common_time::interval> first{{0ms, 10ms}, {20ms, 30ms}, {30ms, 40ms}};
  const std::vector<common_time::interval> second{{5ms, 25ms}, {24ms, 26ms}, {39ms, 50ms}};
  common_time one_after_another;
  common_time in_turn;

  for (const auto& each : first)
    one_after_another.add_first(each);
  for (const auto& each : second)
    one_after_another.add_second(each);
  for (std::size_t i = 0; i != first.size(); ++i) {
    in_turn.add_second(second[i]);
    in_turn.add_first(first[i]);
  }

  CHECK(one_after_another.sum() == 12ms); // 5 to 10, 20 to 26, 39 to 40.
  CHECK(in_turn.sum() == 12ms);
}

TEST_CASE("a list that nothing comes to meet holds no more than it may", "[offload][overlap]") {
  common_time alone;

  for (int i = 0; i != 5000; ++i)
    alone.add_first({i * 2ms, i * 2ms + 1ms});
  alone.add_second({0ms, 1'000'000ms});

  CHECK(alone.sum() == common_time::most_open * 1ms);
}

TEST_CASE("copies and marks that belong to no block do not count", "[offload][overlap]") {
  overlap_meter meter;
  auto span = copy(0ms, 8ms);
  span.tag.block = operation_tag::no_block;

  meter.add(span);

  CHECK(meter.summary().transfer == 0ms);
  CHECK(meter.summary().efficiency() == 1.0);
}

} // namespace
} // namespace ferry
