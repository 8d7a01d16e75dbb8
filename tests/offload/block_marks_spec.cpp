// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/block_marks.hpp>

#include "support/catch.hpp"

#include <chrono>

namespace ferry {
namespace {

using namespace std::chrono_literals;

operation_span mark(const char* what, std::uint32_t block, std::uint64_t ticket, nanoseconds at,
                    std::uint32_t stream = 3) {
  operation_span span{};
  span.kind = operation_kind::mark;
  span.stream = stream_id{stream};
  span.tag = {.what = what, .block = block, .ticket = ticket};
  span.start = at;
  span.end = at;
  return span;
}

TEST_CASE("the marks of a block make a use of it, whatever runs between them",
          "[offload][block_marks]") {
  block_marks marks;

  CHECK_FALSE(marks.add(mark(mark_acquire, 7, 0, 1us)));
  CHECK_FALSE(marks.add(mark(mark_acquire, 8, 0, 2us)));
  CHECK_FALSE(marks.add(mark(mark_begin, 8, 5, 3us)));
  CHECK_FALSE(marks.add(mark(mark_begin, 7, 4, 4us)));
  const auto inner = marks.add(mark(mark_end, 8, 5, 5us));
  const auto outer = marks.add(mark(mark_end, 7, 4, 9us));

  REQUIRE(inner);
  CHECK(*inner == block_span{0, 3, 8, 5, 2us, 3us, 5us});
  REQUIRE(outer);
  CHECK(*outer == block_span{0, 3, 7, 4, 1us, 4us, 9us});
}

TEST_CASE("a block may end on another stream than it began on", "[offload][block_marks]") {
  block_marks marks;

  marks.add(mark(mark_begin, 7, 4, 4us, 3));

  const auto use = marks.add(mark(mark_end, 7, 4, 9us, 6));
  REQUIRE(use);
  CHECK(use->track == 3);
  CHECK(use->wait() == 0us);
}

TEST_CASE("a use whose beginning is lost is none, and the next one is not longer for it",
          "[offload][block_marks]") {
  block_marks marks;
  marks.add(mark(mark_acquire, 7, 0, 1us));
  marks.add(mark(mark_begin, 7, 1, 2us));

  CHECK_FALSE(marks.add(mark(mark_end, 7, 2, 50us)));
  CHECK_FALSE(marks.add(mark(mark_end, 7, 1, 60us)));
  CHECK_FALSE(marks.add(mark(mark_end, 9, 1, 70us)));
}

TEST_CASE("marks of steps are no block's", "[offload][block_marks]") {
  CHECK_FALSE(block_marks::is_gate_mark(mark(mark_step_begins, 0, 0, 1us)));
  CHECK(block_marks::is_gate_mark(mark(mark_end, 0, 0, 1us)));
}

} // namespace
} // namespace ferry
