// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "fetch_history.hpp"

#include <ferry/offload/block_marks.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>

namespace ferry {
namespace {

/// Returns the last of `spans` whose time is not after `at`, null if there is none.
/// @pre in the order of that time
template <class Span>
const Span* last_until(const std::vector<const Span*>& spans, nanoseconds at,
                       nanoseconds Span::* time) {
  const auto after =
      std::ranges::upper_bound(spans, at, {}, [time](const Span* each) { return each->*time; });
  return after == spans.begin() ? nullptr : *std::prev(after);
}

} // namespace

// Spans stand in the trace, and so in every list here, in the order of time: so do their addresses.
rank_history::rank_history(const trace& run, std::uint32_t rank) {
  for (const auto& each : run.uses) {
    if (each.rank != rank)
      continue;
    uses_.push_back(&each);
    uses_of_[{each.ticket, each.block}].push_back(&each);
  }
  by_end_ = uses_;
  std::ranges::stable_sort(by_end_, {}, &block_span::ended);
  for (const auto& each : run.device) {
    if (each.rank != rank)
      continue;
    const auto is_copy = each.kind == operation_kind::copy;
    if (!is_copy && each.kind != operation_kind::gather)
      continue;
    (is_copy ? copies_ : gathers_).push_back(&each);
    if (each.ticket != 0)
      (is_copy ? copies_for_ : gathers_for_)[{each.ticket, each.block}].push_back(&each);
  }
  for (const auto& each : run.counters)
    if (each.rank == rank && each.what == disk_counter)
      disk_.push_back(&each);
  for (const auto& each : run.messages) {
    if (each.rank != rank)
      continue;
    if (each.slot)
      slots_.insert(*each.slot);
    if (each.what == "fetch_block")
      requests_[{each.ticket, each.block}].push_back(&each);
    else if (each.what == "pack_piece")
      packings_.push_back(&each);
    else if (each.what == "demand_block")
      demands_[each.block].push_back(&each);
    else if (each.what == "block_released" && each.slot)
      releases_[*each.slot][each.ticket] = &each;
  }
  read_marks(run, rank);
}

void rank_history::read_marks(const trace& run, std::uint32_t rank) {
  constexpr auto never = nanoseconds::max();
  for (const auto& each : run.marks) {
    if (each.rank != rank)
      continue;
    ended_steps_ += each.what == mark_step_ended ? 1U : 0U;
    if (each.what == mark_step_begins) {
      open_step_ = {each.at, never};
    } else if (each.what == mark_step_ended && open_step_) {
      steps_.push_back({open_step_->from, each.at});
      open_step_.reset();
    } else if (each.what == mark_warm_up_begins) {
      warm_ups_.push_back({each.at, never});
    } else if (each.what == mark_warm_up_ended && !warm_ups_.empty()) {
      warm_ups_.back().until = each.at;
    }
  }
  for (const auto& each : steps_)
    find_other_work(each);
  if (open_step_)
    find_other_work(*open_step_);
}

void rank_history::find_other_work(const stretch& step) {
  auto idle_since = step.from;
  const auto put = [&](nanoseconds until) {
    if (until > idle_since)
      other_work_.push_back({idle_since, until});
  };
  for (auto use = std::ranges::lower_bound(uses_, step.from, {}, &block_span::begun);
       use != uses_.end() && (*use)->ended <= step.until; ++use) {
    put((*use)->asked);
    idle_since = std::max(idle_since, (*use)->ended);
  }
  if (step.until != nanoseconds::max())
    put(step.until);
}

bool rank_history::warms_up(nanoseconds when) const noexcept {
  const auto after = std::ranges::upper_bound(warm_ups_, when, {}, &stretch::from);
  return after != warm_ups_.begin() && when < std::prev(after)->until;
}

fetch_record rank_history::fetch_of(std::size_t use) const {
  const auto& wanted = *uses_[use];
  const key whose{wanted.ticket, wanted.block};
  // Tickets count from 1 again with every backend.
  const auto& same = uses_of_.at(whose);
  const auto self = std::ranges::lower_bound(same, &wanted, std::less<>{});
  const auto since = self == same.begin() ? nanoseconds::min() : (*std::prev(self))->begun;
  fetch_record found;
  const auto collect = [&](const auto& from, auto& to) {
    const auto all = from.find(whose);
    if (all == from.end())
      return;
    for (auto it = std::ranges::upper_bound(all->second, since, {}, &device_span::start);
         it != all->second.end() && (*it)->start <= wanted.begun; ++it)
      to.push_back(*it);
  };
  collect(copies_for_, found.copies);
  collect(gathers_for_, found.gathers);
  for (const auto* each : found.copies) {
    found.copying += each->end - each->start;
    found.bytes += each->bytes;
  }
  return found;
}

const device_span* rank_history::before(const device_span& span) const noexcept {
  const auto& all = span.kind == operation_kind::gather ? gathers_ : copies_;
  const auto here = std::ranges::lower_bound(all, &span, std::less<>{});
  return here == all.begin() ? nullptr : *std::prev(here);
}

std::optional<nanoseconds> rank_history::landed(const device_span& gather) const noexcept {
  std::optional<nanoseconds> last;
  if (const auto all = copies_for_.find({gather.ticket, gather.block}); all != copies_for_.end())
    for (const auto* each : all->second)
      if (each->end <= gather.start && (!last || each->end > *last))
        last = each->end;
  return last;
}

std::size_t rank_history::number_of(const device_span& gather) const noexcept {
  const auto here = std::ranges::lower_bound(gathers_, &gather, std::less<>{});
  return static_cast<std::size_t>(here - gathers_.begin());
}

const block_span* rank_history::released_before(std::size_t use, nanoseconds at) const noexcept {
  const auto [fetch, trigger] = request_of(*uses_[use]);
  if (fetch == nullptr)
    return last_until(by_end_, at, &block_span::ended);
  if (trigger == nullptr)
    return nullptr;
  const auto freed = uses_of_.find({trigger->ticket, trigger->block});
  return freed == uses_of_.end() ? nullptr : last_until(freed->second, at, &block_span::begun);
}

rank_history::request rank_history::request_of(const block_span& use) const noexcept {
  request found;
  if (const auto all = requests_.find({use.ticket, use.block}); all != requests_.end())
    found.fetch = last_until(all->second, use.begun, &message_span::started);
  if (found.fetch == nullptr)
    return found;
  if (found.fetch->demanded) {
    if (const auto all = demands_.find(use.block); all != demands_.end())
      found.trigger = last_until(all->second, found.fetch->sent, &message_span::started);
  } else if (found.fetch->slot) {
    if (const auto all = releases_.find(*found.fetch->slot); all != releases_.end())
      if (const auto after = all->second.lower_bound(use.ticket); after != all->second.begin())
        found.trigger = std::prev(after)->second;
  }
  return found;
}

nanoseconds rank_history::packing(std::uint32_t block, nanoseconds from,
                                  nanoseconds until) const noexcept {
  nanoseconds spent{};
  for (auto it = std::ranges::lower_bound(packings_, until, {}, &message_span::started);
       it != packings_.begin();) {
    const auto* const each = *--it;
    if (each->finished <= from)
      break;
    if (each->block == block)
      spent += std::min(each->finished, until) - std::max(each->started, from);
  }
  return spent;
}

// It is written down now and then, if it has grown: what it was in between is not known.
std::optional<std::uint64_t> rank_history::disk_bytes(nanoseconds from, nanoseconds until) const {
  if (disk_.empty())
    return std::nullopt;
  const auto* const before = last_until(disk_, from, &trace_counter::at);
  const auto after = std::ranges::lower_bound(disk_, until, {}, &trace_counter::at);
  return (after == disk_.end() ? disk_.back() : *after)->value -
         (before == nullptr ? 0 : before->value);
}

double rank_history::usual_rate() const {
  std::vector<double> rates;
  for (const auto* each : copies_)
    if (each->block != operation_tag::no_block && each->bytes != 0 && each->end > each->start)
      rates.push_back(static_cast<double>(each->bytes) /
                      std::chrono::duration<double>(each->end - each->start).count());
  if (rates.empty())
    return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

} // namespace ferry
