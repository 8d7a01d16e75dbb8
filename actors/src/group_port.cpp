// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_port.hpp"

#include <ferry/offload/wait_edges.hpp>

#include "guarded.hpp"

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
    auto found = find(group);
    auto ordered = attempt([&] { order(group, found); });
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
  post(stager_, demand_group{group, through_->owner().stamp()});
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

void group_port::order(group_id group, const group_board::holding& held) {
  const auto* stager = groups_->at(group).stager.get();
  if (stager == nullptr)
    return;
  auto& owner = through_->owner();
  auto& compute = through_->compute();
  if (held.first) {
    owner.observe(held.known);
    compute.wait(stager->ready(), compute_waits_stage);
  }
  const std::array<const_bytes, 1> reads{stager->region()};
  compute.compute({.reads = reads, .tag = {.what = "compute"}});
  if (held.first && owner.traits().computes_on_host)
    compute.settle();
}

void group_port::leave(group_id group) noexcept {
  auto& board = groups_->board();
  auto recorded = attempt([&]() -> causal_stamp {
    auto* stager = groups_->at(group).stager.get();
    if (stager == nullptr || !board.held_once(group))
      return {};
    through_->compute().record(stager->last_use());
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
