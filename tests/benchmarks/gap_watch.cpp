// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gap_watch.hpp"

#include <ferry/offload/overlap.hpp>

#include <algorithm>
#include <chrono>

namespace ferry::bench {

// A device tells of the copies of a ticket and of its marks in any order.
void gap_watch::on_operation(const operation_span& span) {
  const std::lock_guard lock{mutex_};
  if (span.tag.block == operation_tag::no_block)
    return;
  const std::string_view what = span.tag.what;
  if (span.kind == operation_kind::copy) {
    auto& landed = uses_[span.tag.ticket].landed;
    landed = std::max(landed, span.end);
  } else if (span.kind == operation_kind::mark && what == mark_acquire) {
    asked_ = span.end;
  } else if (span.kind == operation_kind::mark && what == mark_begin) {
    auto& use = uses_[span.tag.ticket];
    use.asked = asked_;
    use.began = span.end;
  }
}

std::vector<double> gap_watch::gaps() const {
  const std::lock_guard lock{mutex_};
  std::vector<double> all;
  for (const auto& [ticket, use] : uses_)
    if (use.landed > use.asked && use.began.count() != 0)
      all.push_back(std::chrono::duration<double, std::micro>(use.began - use.landed).count());
  std::ranges::sort(all);
  return all;
}

} // namespace ferry::bench
