// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "span_recorder.hpp"

#include <ferry/platform/error.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <fstream>
#include <string_view>

namespace ferry {

namespace {

using json = nlohmann::ordered_json;

double microseconds(nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

json complete_event(std::string_view name, const operation_span& span, nanoseconds start) {
  json event = {{"ph", "X"},
                {"name", name},
                {"pid", 0},
                {"tid", static_cast<std::uint32_t>(span.stream)},
                {"ts", microseconds(start)},
                {"dur", microseconds(span.end - start)}};
  if (span.tag.block != operation_tag::no_block)
    event["args"]["block"] = span.tag.block;
  if (span.tag.ticket != 0)
    event["args"]["ticket"] = span.tag.ticket;
  if (span.bytes != 0)
    event["args"]["bytes"] = span.bytes;
  return event;
}

json instant_event(const operation_span& span) {
  return {{"ph", "i"},
          {"name", span.tag.what},
          {"pid", 0},
          {"tid", static_cast<std::uint32_t>(span.stream)},
          {"ts", microseconds(span.end)},
          {"s", "t"}};
}

/// Turns the marks around a block into one span for its wait and one for its body.
class mark_pairs {
public:
  void add(const operation_span& span, json& events) {
    const std::string_view what = span.tag.what;
    if (what == mark_acquire) {
      acquired_ = span.end;
    } else if (what == mark_begin) {
      begun_ = span.end;
      if (begun_ > acquired_)
        events.push_back(complete_event("wait", span, acquired_));
    } else if (what == mark_end) {
      events.push_back(complete_event("block", span, begun_));
    } else {
      events.push_back(instant_event(span));
    }
  }

private:
  nanoseconds acquired_{};
  nanoseconds begun_{};
};

} // namespace

void span_recorder::on_operation(const operation_span& span) {
  const std::lock_guard lock(mutex_);
  meter_.add(span);
  if (span.kind == operation_kind::mark) {
    const std::string_view what = span.tag.what;
    if (what == mark_step_begins)
      step_begun_ = span.end;
    else if (what == mark_step_ended)
      step_s_.push_back(std::chrono::duration<double>(span.end - step_begun_).count());
  }
  if (what_ == keep::sums)
    return;
  if (spans_.size() < most_spans)
    spans_.push_back(span);
  else
    ++dropped_;
}

void span_recorder::on_stream(stream_id stream, std::string_view name) {
  const std::lock_guard lock(mutex_);
  streams_[stream] = std::string(name);
}

overlap_summary span_recorder::overlap() const {
  const std::lock_guard lock(mutex_);
  return meter_.summary();
}

std::vector<double> span_recorder::step_seconds() const {
  const std::lock_guard lock(mutex_);
  return step_s_;
}

void span_recorder::write_trace(const std::filesystem::path& path) const {
  const std::lock_guard lock(mutex_);
  json events = json::array();
  for (const auto& [id, name] : streams_)
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", static_cast<std::uint32_t>(id)},
                      {"args", {{"name", name}}}});
  mark_pairs pairs;
  std::uint64_t moved = 0;
  for (const auto& span : spans_) {
    if (span.kind == operation_kind::mark) {
      pairs.add(span, events);
    } else if (span.kind == operation_kind::gather) {
      events.push_back(complete_event(span.tag.what, span, span.start));
    } else if (span.kind == operation_kind::copy) {
      events.push_back(complete_event(span.tag.what, span, span.start));
      moved += span.bytes;
      events.push_back({{"ph", "C"},
                        {"name", "bytes moved"},
                        {"pid", 0},
                        {"ts", microseconds(span.end)},
                        {"args", {{"bytes", moved}}}});
    }
  }
  std::ofstream file(path);
  file << json{{"traceEvents", events}, {"otherData", {{"dropped_spans", dropped_}}}}.dump()
       << '\n';
  file.close();
  if (!file)
    throw ferry_error({.code = errc::io_failure,
                       .detail = "the trace '" + path.string() + "' could not be written"});
}

} // namespace ferry
