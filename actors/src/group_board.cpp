// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_board.hpp"

#include <ferry/platform/quantity.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace ferry {

group_board::group_board(std::vector<std::vector<group_id>> excludes) : cells_(excludes.size()) {
  for (std::size_t i = 0; i != excludes.size(); ++i)
    cells_[i].excludes = std::move(excludes[i]);
}

group_board::cell& group_board::of(group_id group) noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(group) < cells_.size());
  return cells_[static_cast<std::size_t>(group)];
}

const group_board::cell& group_board::of(group_id group) const noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(group) < cells_.size());
  return cells_[static_cast<std::size_t>(group)];
}

std::optional<group_board::holding> group_board::hold_now(cell& entry) {
  if (entry.now == state::held) {
    ++entry.holds;
    return holding{};
  }
  const auto is_away = [this](group_id other) { return of(other).now == state::away; };
  if (entry.now != state::here || !std::ranges::all_of(entry.excludes, is_away))
    return std::nullopt;
  entry.now = state::held;
  entry.holds = 1;
  return holding{.first = std::exchange(entry.first, false), .known = entry.known};
}

std::optional<group_board::holding> group_board::hold(group_id group) {
  const std::lock_guard lock{mutex_};
  return hold_now(of(group));
}

void group_board::expect(group_id group) {
  const std::lock_guard lock{mutex_};
  of(group).refusal.reset();
}

result<group_board::holding> group_board::wait_for(group_id group,
                                                   std::chrono::nanoseconds deadline) {
  std::unique_lock lock{mutex_};
  auto& entry = of(group);
  std::optional<holding> got;
  const auto decided = changed_.wait_for(lock, deadline, [&] {
    got = hold_now(entry);
    return got || failure_ || entry.refusal;
  });
  if (got)
    return *got;
  if (failure_)
    return tl::unexpected(*failure_);
  if (decided)
    return tl::unexpected(*entry.refusal);
  return tl::unexpected(
      failure{errc::deadline_exceeded, "it was not brought in within " + duration_text(deadline)});
}

void group_board::let_go(group_id group, causal_stamp used) noexcept {
  const std::lock_guard lock{mutex_};
  auto& entry = of(group);
  FERRY_ASSERT(entry.now == state::held);
  if (--entry.holds != 0)
    return;
  entry.now = state::here;
  entry.known = std::move(used);
  changed_.notify_all();
}

bool group_board::held_once(group_id group) const {
  const std::lock_guard lock{mutex_};
  return of(group).holds == 1;
}

std::optional<causal_stamp> group_board::claim(group_id group) {
  const std::lock_guard lock{mutex_};
  auto& entry = of(group);
  if (entry.now == state::held || entry.now == state::moving)
    return std::nullopt;
  entry.now = state::moving;
  return entry.known;
}

void group_board::arrived(group_id group, causal_stamp known) {
  const std::lock_guard lock{mutex_};
  auto& entry = of(group);
  FERRY_ASSERT(entry.now == state::moving);
  entry.now = state::here;
  entry.first = true;
  entry.known = std::move(known);
  changed_.notify_all();
}

void group_board::left(group_id group) noexcept {
  const std::lock_guard lock{mutex_};
  auto& entry = of(group);
  FERRY_ASSERT(entry.now == state::moving);
  entry.now = state::away;
  entry.known = {};
  changed_.notify_all();
}

void group_board::refuse(group_id group, failure reason) {
  const std::lock_guard lock{mutex_};
  of(group).refusal = std::move(reason);
  changed_.notify_all();
}

group_board::state group_board::at(group_id group) const {
  const std::lock_guard lock{mutex_};
  return of(group).now;
}

bool group_board::is_here(group_id group) const {
  const auto now = at(group);
  return now == state::here || now == state::held;
}

bool group_board::was_held(group_id group) const {
  const std::lock_guard lock{mutex_};
  const auto& entry = of(group);
  return entry.now == state::held || (entry.now == state::here && !entry.first);
}

std::optional<group_id> group_board::any_held() const {
  const std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i != cells_.size(); ++i)
    if (cells_[i].now == state::held)
      return group_id{static_cast<std::uint32_t>(i)};
  return std::nullopt;
}

void group_board::fail(failure cause) {
  const std::lock_guard lock{mutex_};
  if (failure_)
    return;
  failure_ = std::move(cause);
  changed_.notify_all();
}

} // namespace ferry
