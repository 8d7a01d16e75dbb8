// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "span_recorder.hpp"

#include "support/catch.hpp"

namespace ferry {
namespace {

operation_span mark(const char* what, std::int64_t at_ms) {
  operation_span span{};
  span.kind = operation_kind::mark;
  span.tag.what = what;
  span.end = std::chrono::milliseconds(at_ms);
  return span;
}

TEST_CASE("a step that did not end has no time and changes none", "[app][span_recorder]") {
  span_recorder recorder;

  recorder.on_operation(mark(mark_step_begins, 10));
  recorder.on_operation(mark(mark_step_begins, 100));
  recorder.on_operation(mark(mark_step_ended, 102));
  recorder.on_operation(mark(mark_step_begins, 200));
  recorder.on_operation(mark(mark_step_ended, 203));

  CHECK(recorder.step_seconds() == std::vector<double>{0.002, 0.003});
}

} // namespace
} // namespace ferry
