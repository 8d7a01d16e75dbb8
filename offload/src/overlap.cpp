// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/overlap.hpp"

#include <algorithm>
#include <string_view>

namespace ferry {

nanoseconds overlap_summary::lower_bound() const noexcept {
  return std::max({compute, transfer_beside, gather_beside});
}

double overlap_summary::efficiency() const noexcept {
  const auto serial = compute + transfer + gather;
  const auto ideal = lower_bound();
  if (serial <= ideal)
    return 1.0;
  const auto hidden = static_cast<double>((serial - observed()).count());
  return std::clamp(hidden / static_cast<double>((serial - ideal).count()), 0.0, 1.0);
}

void common_time::add(list& to, interval next) {
  if (next.second <= next.first)
    return;
  if (!to.open.empty() && to.open.back().second == next.first)
    to.open.back().second = next.second;
  else
    to.open.push_back(next);
  if (to.open.size() > most_open)
    to.open.pop_front();
  while (!first_.open.empty() && !second_.open.empty()) {
    auto& one = first_.open.front();
    auto& other = second_.open.front();
    const auto from = std::max(one.first, other.first);
    const auto until = std::min(one.second, other.second);
    sum_ += std::max(until - from, nanoseconds::zero());
    const auto done = one.second < other.second ? &first_ : &second_;
    auto& left = done == &first_ ? other : one;
    left.first = std::max(left.first, until);
    done->open.pop_front();
  }
}

void overlap_meter::add(const operation_span& span) {
  if (block_marks::is_gate_mark(span)) {
    if (idle_since_ && std::string_view(span.tag.what) == mark_acquire) {
      add_other(*idle_since_, span.end);
      idle_since_ = span.end;
    }
    if (const auto use = marks_.add(span)) {
      add_use(*use);
      if (idle_since_)
        idle_since_ = std::max(*idle_since_, use->ended);
    }
    return;
  }
  if (span.kind == operation_kind::mark) {
    const std::string_view what = span.tag.what;
    if (what == mark_step_ended && idle_since_)
      add_other(*idle_since_, span.end);
    if (what == mark_step_ended)
      idle_since_.reset();
    else if (what == mark_step_begins)
      idle_since_ = span.end;
    return;
  }
  if (span.tag.block == operation_tag::no_block)
    return;
  if (span.kind == operation_kind::copy)
    add_copy(span.start, span.end);
  else if (span.kind == operation_kind::gather)
    add_gather(span.start, span.end);
}

void overlap_meter::add_use(const block_span& use) {
  ++sums_.blocks;
  sums_.compute += use.ended - use.begun;
  sums_.exposed_wait += use.wait();
  add_time(use.asked, use.ended);
}

void overlap_meter::add_other(nanoseconds from, nanoseconds until) {
  if (until <= from)
    return;
  sums_.compute += until - from;
  add_time(from, until);
}

void overlap_meter::add_time(nanoseconds from, nanoseconds until) {
  copies_.add_first({from, until});
  gathers_.add_first({from, until});
}

void overlap_meter::add_copy(nanoseconds start, nanoseconds end) {
  sums_.transfer += end - start;
  copies_.add_second({start, end});
}

void overlap_meter::add_gather(nanoseconds start, nanoseconds end) {
  sums_.gather += end - start;
  gathers_.add_second({start, end});
}

overlap_summary overlap_meter::summary() const noexcept {
  auto all = sums_;
  all.transfer_beside = copies_.sum();
  all.gather_beside = gathers_.sum();
  return all;
}

} // namespace ferry
