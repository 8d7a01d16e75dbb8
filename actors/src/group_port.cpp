// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_port.hpp"

#include <ferry/offload/wait_edges.hpp>

#include "guarded.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ferry {

group_port::group_port(std::shared_ptr<streaming> through, std::shared_ptr<staging> groups,
                       component_stager_actor stager, supervisor_actor supervisor,
                       std::chrono::milliseconds deadline)
    : through_(std::move(through)), groups_(std::move(groups)), stager_(std::move(stager)),
      supervisor_(std::move(supervisor)), deadline_(deadline) {}

void group_port::enter(group_id group) {
  auto& board = through_->board();
  if (!board.enter())
    throw ferry_error{about(board.first_failure(), groups_->at(group).path)};
  auto held = attempt([&] {
    if (board.cancelled())
      throw ferry_error{{errc::cancelled, "the request was cancelled"}};
    const auto on = through_->compute();
    const auto found = find(group);
    auto ordered = attempt([&] { order(group, found, on); });
    if (!ordered)
      fail(ordered.error(), group);
    return ordered;
  });
  if (!held) {
    board.leave();
    throw ferry_error{about(std::move(held.error()), groups_->at(group).path)};
  }
}

group_board::holding group_port::find(group_id group) {
  auto& board = groups_->board();
  if (auto held = board.hold(group))
    return *held;
  check_conflicts(group);
  board.expect(group);
  auto& owner = through_->owner();
  post(stager_, demand_group{group, owner.stamp(), {owner.now()}});
  auto held = board.wait_for(group, deadline_);
  if (!held)
    throw ferry_error{std::move(held.error())};
  return *held;
}

void group_port::check_conflicts(group_id group) const {
  for (const auto other : groups_->at(group).excludes)
    if (groups_->board().at(other) == group_board::state::held)
      throw ferry_error{
          {errc::slot_conflict, "it shares device memory with '" + groups_->at(other).path +
                                    "', which is in use; they cannot run inside one another"}};
}

void group_port::order(group_id group, const group_board::holding& held, stream_id on) {
  auto& entered = groups_->at(group);
  if (entered.stager == nullptr)
    return;
  auto& owner = through_->owner();
  if (held.first) {
    owner.observe(held.known);
    entered.used_on.clear();
  }
  const auto is_new = std::ranges::find(entered.used_on, on) == entered.used_on.end();
  if (is_new) {
    owner.wait(on, entered.stager->ready().id(), compute_waits_stage);
    entered.used_on.push_back(on);
  }
  const std::array<const_bytes, 1> reads{entered.stager->region()};
  for (std::size_t i = 0; i != entered.computes; ++i)
    owner.compute(on, {.reads = reads, .tag = {.what = "compute"}});
  if (is_new && owner.traits().computes_on_host)
    owner.settle(on);
}

void group_port::leave(group_id group) noexcept {
  auto& board = groups_->board();
  auto recorded = attempt([&]() -> causal_stamp {
    auto& left = groups_->at(group);
    if (left.stager == nullptr || !board.held_once(group))
      return {};
    const auto on = through_->compute();
    through_->join(on, left.used_on);
    left.used_on.assign({on});
    through_->owner().record(on, left.stager->last_use().id());
    return through_->owner().stamp();
  });
  if (recorded)
    board.let_go(group, std::move(*recorded));
  else
    fail(recorded.error(), group);
  through_->board().leave();
}

// The group stays held: nothing tells when the device has read it for the last time.
void group_port::fail(failure reason, group_id group) {
  reason = about(std::move(reason), groups_->at(group).path);
  through_->board().fail(reason);
  groups_->board().fail(reason);
  post(supervisor_, child_failed{"model thread", 0, std::move(reason)});
}

void group_port::close() noexcept {
  stager_ = nullptr;
  supervisor_ = nullptr;
}

} // namespace ferry
