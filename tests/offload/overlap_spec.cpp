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

operation_span copy(nanoseconds start, nanoseconds end) {
  return {.kind = operation_kind::copy,
          .stream = stream_id{2},
          .tag = {.what = "fetch", .block = 0},
          .bytes = 1,
          .enqueued = start,
          .start = start,
          .end = end};
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
