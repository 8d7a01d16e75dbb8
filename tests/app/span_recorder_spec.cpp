// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "span_recorder.hpp"

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

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
  span_recorder recorder(span_recorder::keep::sums);

  recorder.on_operation(mark(mark_step_begins, 10));
  recorder.on_operation(mark(mark_step_begins, 100));
  recorder.on_operation(mark(mark_step_ended, 102));
  recorder.on_operation(mark(mark_step_begins, 200));
  recorder.on_operation(mark(mark_step_ended, 203));

  CHECK(recorder.step_seconds() == std::vector<double>{0.002, 0.003});
}

TEST_CASE("a trace shows the gathers of ranks", "[app][span_recorder]") {
  const test::scratch_directory scratch;
  span_recorder recorder(span_recorder::keep::spans);
  operation_span gather{};
  gather.kind = operation_kind::gather;
  gather.tag = {.what = "gather", .block = 3};
  gather.start = std::chrono::milliseconds(10);
  gather.end = std::chrono::milliseconds(12);

  recorder.on_operation(gather);

  recorder.write_trace(scratch.path() / "trace.json");
  const auto events =
      nlohmann::json::parse(test::read_text(scratch.path() / "trace.json"))["traceEvents"];
  REQUIRE(events.size() == 1);
  CHECK(events[0]["name"] == "gather");
  CHECK(events[0]["args"]["block"] == 3);
  CHECK(events[0]["dur"] == 2000.0);
}

} // namespace
} // namespace ferry
