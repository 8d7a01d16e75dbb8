// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "span_recorder.hpp"

#include <chrono>
#include <string_view>

namespace ferry {

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
}

overlap_summary span_recorder::overlap() const {
  const std::lock_guard lock(mutex_);
  return meter_.summary();
}

std::vector<double> span_recorder::step_seconds() const {
  const std::lock_guard lock(mutex_);
  return step_s_;
}

} // namespace ferry
