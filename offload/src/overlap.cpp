// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/overlap.hpp"

#include <algorithm>

namespace ferry {

nanoseconds overlap_summary::lower_bound() const noexcept {
  return std::max({compute, transfer, gather});
}

double overlap_summary::efficiency() const noexcept {
  const auto serial = compute + transfer + gather;
  const auto ideal = lower_bound();
  if (serial <= ideal)
    return 1.0;
  const auto observed = compute + exposed_wait;
  const auto hidden = static_cast<double>((serial - observed).count());
  return std::clamp(hidden / static_cast<double>((serial - ideal).count()), 0.0, 1.0);
}

void overlap_meter::add(const operation_span& span) noexcept {
  if (span.tag.block == operation_tag::no_block)
    return;
  if (span.kind == operation_kind::copy) {
    summary_.transfer += span.end - span.start;
    return;
  }
  if (span.kind == operation_kind::gather) {
    summary_.gather += span.end - span.start;
    return;
  }
  if (span.kind != operation_kind::mark)
    return;
  const std::string_view what = span.tag.what;
  if (what == mark_acquire) {
    acquired_ = span.end;
  } else if (what == mark_begin) {
    begun_ = span.end;
    summary_.exposed_wait += begun_ - acquired_;
  } else if (what == mark_end) {
    summary_.compute += span.end - begun_;
    ++summary_.blocks;
  }
}

} // namespace ferry
