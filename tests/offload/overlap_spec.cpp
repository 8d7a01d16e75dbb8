// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/overlap.hpp>

#include "support/catch.hpp"

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

TEST_CASE("the longest of bodies, copies and gathers bounds the time", "[offload][overlap]") {
  const overlap_summary gathered{
      .blocks = 1, .compute = 2ms, .transfer = 3ms, .gather = 7ms, .exposed_wait = 0ms};

  CHECK(gathered.lower_bound() == 7ms);
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
