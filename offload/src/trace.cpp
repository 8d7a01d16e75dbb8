// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/trace.hpp"

#include "trace_ranks.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <tuple>
#include <utility>

namespace ferry {
namespace {

template <class Span>
void append(std::vector<Span>& to, std::vector<Span>& from, nanoseconds later,
            std::initializer_list<nanoseconds Span::*> times) {
  for (auto& each : from) {
    for (const auto time : times)
      each.*time += later;
    to.push_back(std::move(each));
  }
}

/// Calls `see` with the beginning and the end of everything in `run`.
template <class See>
void see_all(const trace& run, See see) {
  for (const auto& each : run.device)
    see(each.start, each.end);
  for (const auto& each : run.uses)
    see(each.asked, each.ended);
  for (const auto& each : run.messages)
    see(each.started, each.finished);
  for (const auto& each : run.marks)
    see(each.at, each.at);
}

} // namespace

std::set<std::uint32_t> ranks_of(const trace& run) {
  std::set<std::uint32_t> ranks;
  for (const auto& each : run.tracks)
    ranks.insert(each.rank);
  for (const auto& each : run.uses)
    ranks.insert(each.rank);
  for (const auto& each : run.device)
    ranks.insert(each.rank);
  return ranks;
}

std::string_view trace::keep(std::string_view word) {
  const auto known = words_.find(word);
  return known != words_.end() ? *known : *words_.emplace(word).first;
}

void trace::sort() {
  std::ranges::stable_sort(
      tracks, {}, [](const trace_track& each) { return std::tuple(each.rank, each.row, each.id); });
  std::ranges::stable_sort(device, {}, &device_span::start);
  std::ranges::stable_sort(uses, {}, &block_span::begun);
  std::ranges::stable_sort(messages, {}, &message_span::started);
  std::ranges::stable_sort(marks, {}, &trace_mark::at);
  std::ranges::stable_sort(counters, {}, &trace_counter::at);
}

void trace::merge(trace other, nanoseconds later) {
  words_.merge(other.words_);
  // A word that both know stays with the other, which ends here.
  const auto rekeep = [this](auto& spans) {
    for (auto& each : spans)
      each.what = keep(each.what);
  };
  rekeep(other.device);
  rekeep(other.messages);
  rekeep(other.marks);
  rekeep(other.counters);
  append(device, other.device, later,
         {&device_span::enqueued, &device_span::start, &device_span::end});
  append(uses, other.uses, later, {&block_span::asked, &block_span::begun, &block_span::ended});
  append(messages, other.messages, later,
         {&message_span::sent, &message_span::started, &message_span::finished});
  append(marks, other.marks, later, {&trace_mark::at});
  append(counters, other.counters, later, {&trace_counter::at});
  std::ranges::move(other.tracks, std::back_inserter(tracks));
  blocks.merge(other.blocks);
  dropped += other.dropped;
  complete = complete && other.complete;
  sort();
}

nanoseconds trace::begin() const noexcept {
  auto first = nanoseconds::max();
  see_all(*this, [&](nanoseconds begin, nanoseconds) { first = std::min(first, begin); });
  return first == nanoseconds::max() ? nanoseconds::zero() : first;
}

nanoseconds trace::end() const noexcept {
  auto last = nanoseconds::min();
  see_all(*this, [&](nanoseconds, nanoseconds end) { last = std::max(last, end); });
  return last == nanoseconds::min() ? nanoseconds::zero() : last;
}

std::string trace::block_name(std::uint32_t block) const {
  const auto known = blocks.find(block);
  return known != blocks.end() ? known->second : "block " + std::to_string(block);
}

std::string why_not_of_one_run(const trace& one, const trace& other, nanoseconds later) {
  if (!one.epoch || !other.epoch)
    return "times are modelled, and the ranks of such a run are all in one file";
  const auto known = ranks_of(one);
  for (const auto rank : ranks_of(other))
    if (known.contains(rank))
      return "both have rank " + std::to_string(rank);
  for (const auto& [block, path] : other.blocks)
    if (const auto same = one.blocks.find(block); same != one.blocks.end() && same->second != path)
      return "block " + std::to_string(block) + " is '" + same->second + "' in one and '" + path +
             "' in the other";
  // Far apart their times could not even be compared.
  constexpr nanoseconds far = std::chrono::hours{10 * 365 * 24};
  if (later > far || later < -far || other.begin() + later > one.end() ||
      other.end() + later < one.begin())
    return "one had ended before the other began";
  return "";
}

} // namespace ferry
