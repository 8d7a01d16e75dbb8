// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/schedule.hpp"

#include "sim/gather_group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>

namespace ferry::sim {
namespace {

constexpr std::size_t most_reservations = 512;

template <class Visit>
void for_each_predecessor(const operation& op, Visit visit) {
  if (op.previous)
    visit(*op.previous);
  if (op.awaited)
    visit(*op.awaited);
}

template <class Visit>
void for_each_partner(const operation& op, Visit visit) {
  if (!op.group || op.group->given_up)
    return;
  for (const auto& member : op.group->members) {
    if (member.op && !member.op->timed)
      visit(*member.op);
  }
}

nanoseconds ready_time(const operation& op) {
  auto ready = op.earliest;
  for_each_predecessor(op,
                       [&](const operation& before) { ready = std::max(ready, before.span.end); });
  return ready;
}

} // namespace

nanoseconds link::reserve(nanoseconds ready, nanoseconds duration) {
  auto begin = std::max(ready, closed_until_);
  auto next = busy_.upper_bound(begin);
  if (next != busy_.begin())
    begin = std::max(begin, std::prev(next)->second);
  while (next != busy_.end() && next->first < begin + duration) {
    begin = next->second;
    ++next;
  }
  if (duration == nanoseconds::zero())
    return begin;

  auto end = begin + duration;
  if (next != busy_.end() && next->first == end) {
    end = next->second;
    next = busy_.erase(next);
  }
  if (next != busy_.begin() && std::prev(next)->second == begin)
    std::prev(next)->second = end;
  else
    busy_.emplace_hint(next, begin, end);

  if (busy_.size() > most_reservations) {
    closed_until_ = busy_.begin()->second;
    busy_.erase(busy_.begin());
  }
  return begin;
}

schedule::schedule(std::function<void(const operation&)> on_timed)
    : on_timed_(std::move(on_timed)) {}

schedule::~schedule() {
  // Newest first: an operation owns its predecessor, and a long chain must not recurse.
  while (!untimed_.empty()) {
    untimed_.back()->group.reset();
    untimed_.pop_back();
  }
}

void schedule::add(const operation_ref& added) {
  added->untimed_predecessors = 0;
  for_each_predecessor(*added, [&](operation& before) {
    if (before.timed)
      return;
    before.successors.push_back(added.get());
    ++added->untimed_predecessors;
  });
  untimed_.push_back(added);
}

void schedule::evaluate(const vector_clock& known) {
  if (untimed_.empty())
    return;
  for (const auto& candidate : untimed_)
    candidate->selected = known.knows(candidate->enqueued);
  select_predecessors();
  run_selected();
}

void schedule::select_predecessors() {
  // Predecessors were enqueued earlier, so that one pass from the end reaches them all, but for
  // those of the other ranks of a collective.
  for (auto again = true; again;) {
    again = false;
    for (auto it = untimed_.rbegin(); it != untimed_.rend(); ++it) {
      auto& op = **it;
      if (!op.selected)
        continue;
      for_each_predecessor(op, [](operation& before) { before.selected = !before.timed; });
      for_each_partner(op, [&](operation& partner) {
        again = again || !partner.selected;
        partner.selected = true;
      });
    }
  }
}

void schedule::evaluate_all() {
  for (const auto& candidate : untimed_)
    candidate->selected = true;
  run_selected();
}

void schedule::run_selected() {
  using arrival = std::tuple<nanoseconds, std::uint64_t, std::uint64_t, operation*>;
  auto arrivals = std::priority_queue<arrival, std::vector<arrival>, std::greater<>>{};
  auto arrive = [&](operation& op) {
    if (!op.group || op.group->given_up) {
      arrivals.emplace(ready_time(op), op.key, op.sequence, &op);
      return;
    }
    auto& group = *op.group;
    group.ready = std::max(group.ready, ready_time(op));
    if (++group.ready_members < group.members.size())
      return;
    for (const auto& member : group.members)
      arrivals.emplace(group.ready, member.op->key, member.op->sequence, member.op.get());
  };

  for (const auto& candidate : untimed_) {
    if (candidate->group)
      candidate->group->ready_members = 0;
  }
  for (const auto& candidate : untimed_) {
    if (candidate->selected && candidate->untimed_predecessors == 0)
      arrive(*candidate);
  }
  while (!arrivals.empty()) {
    auto ready = std::get<nanoseconds>(arrivals.top());
    auto& next = *std::get<operation*>(arrivals.top());
    arrivals.pop();
    set_times(next, ready);
    for (auto* successor : std::exchange(next.successors, {})) {
      if (--successor->untimed_predecessors == 0 && successor->selected)
        arrive(*successor);
    }
  }
  std::erase_if(untimed_, [](const operation_ref& candidate) { return candidate->timed; });
}

void schedule::set_times(operation& chosen, nanoseconds ready) {
  chosen.span.start = chosen.over ? chosen.over->reserve(ready, chosen.duration) : ready;
  chosen.span.end = chosen.span.start + chosen.duration;
  if (chosen.group && chosen.group->given_up)
    chosen.span.end = chosen.span.start;
  chosen.timed = true;
  chosen.previous.reset();
  if (chosen.ran) {
    chosen.awaited.reset();
    chosen.group.reset();
  }
  if (chosen.role == operation_role::work)
    on_timed_(chosen);
}

} // namespace ferry::sim
