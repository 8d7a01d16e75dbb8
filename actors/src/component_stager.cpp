// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "component_stager.hpp"

#include "guarded.hpp"

#include <utility>
#include <vector>

namespace ferry {

component_stager::component_stager(caf::actor_config& config, std::shared_ptr<device> owner)
    : component_stager_actor::base(config), owner_(std::move(owner)) {}

component_stager::behavior_type component_stager::make_behavior() {
  return {
      [this](const open_groups& m) { return guarded(this, m, [&] { return open(m); }); },
      [this](const drain_groups& m) { return guarded(this, m, [&] { return drain(m); }); },
      [this](const close_groups& m) { return guarded(this, m, [&] { return close(m); }); },
      [this](const demand_group& m) { return guarded(this, m, [&] { demand(m); }); },
      [this](const use_cache_retention& m) { return guarded(this, m, [&] { use(m); }); },
      [this](const stage_group_in& m) { return guarded(this, m, [&] { return stage_in(m); }); },
      [this](const stage_group_out& m) { return guarded(this, m, [&] { return stage_out(m); }); },
      [this](const begin_request& m) { return guarded(this, m, [&] { return begin(m); }); },
      [this](const end_request& m) { return guarded(this, m, [&] { return end(m); }); },
      [this](const start_child& m) { return guarded(this, m, [&] { start(); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) { return guarded(this, m, [&] { return release(); }); },
  };
}

void component_stager::on_exit() {
  lane_.reset();
  through_ = nullptr;
  retention_ = nullptr;
}

void component_stager::start() {
  lane_.emplace(*owner_);
}

void component_stager::drain(const drain_child& message) {
  if (refusal_)
    return;
  refusal_ = message.cause;
  if (through_ != nullptr)
    through_->board().fail(message.cause);
}

answered component_stager::release() {
  answered last;
  if (lane_) {
    const host_thread::scope scope{lane_->me};
    through_ = nullptr;
    last.stamp = owner_->stamp();
  }
  lane_.reset();
  quit();
  return last;
}

answered component_stager::open(const open_groups& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ != nullptr)
    throw ferry_error{{errc::busy, "the component stager serves a backend already"}};
  FERRY_ASSERT(lane_.has_value());
  const host_thread::scope scope{lane_->me, message.stamp};
  permit_ = message.through->permit();
  const auto held = permit_->begin(lane_->copies);
  if (!held)
    throw ferry_error{{errc::not_enabled, "the backend was taken back before it was opened"}};
  through_ = message.through;
  comes_first_ = {};
  first_is_known_ = false;
  return {owner_->stamp()};
}

answered component_stager::drain(const drain_groups& message) {
  const auto held = keep();
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "the component stager serves no backend"}};
  const host_thread::scope scope{lane_->me, message.stamp};
  lane_->copies->record(through_->drained());
  return {owner_->stamp()};
}

answered component_stager::close(const close_groups& message) {
  if (!lane_)
    return {};
  const auto held = keep();
  const host_thread::scope scope{lane_->me, message.stamp};
  tell_retention(groups_closed{});
  through_ = nullptr;
  return {owner_->stamp()};
}

work_permit::use_lock component_stager::keep() {
  auto held = permit_ == nullptr ? work_permit::use_lock{} : permit_->use();
  if (!held)
    through_ = nullptr;
  return held;
}

// One that was started again knows nothing of what is there.
void component_stager::use(const use_cache_retention& message) {
  const auto held = keep();
  retention_ = message.whom;
  tell_retention(group_staged{staged_bytes()});
}

std::uint64_t component_stager::staged_bytes() const {
  std::uint64_t bytes = 0;
  if (through_ != nullptr)
    for (const auto& each : through_->groups())
      if (each.stager && each.stager->loaded())
        bytes += each.stager->bytes();
  return bytes;
}

template <class Message>
void component_stager::tell_retention(Message message) {
  if (retention_)
    tell(this, retention_, std::move(message));
}

void component_stager::check_open() const {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "no backend is enabled"}};
}

void component_stager::demand(const demand_group& message) {
  const auto held = keep();
  if (through_ == nullptr)
    return;
  const auto brought = attempt([&] {
    check_open();
    const host_thread::scope scope{lane_->me, message.stamp};
    if (!std::exchange(first_is_known_, true) && !through_->board().was_held(comes_first_))
      comes_first_ = message.group;
    bring_in(message.group);
  });
  if (!brought)
    through_->board().refuse(message.group, brought.error());
}

answered component_stager::stage_in(const stage_group_in& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{lane_->me, message.stamp};
  bring_in(message.group);
  return {owner_->stamp()};
}

answered component_stager::stage_out(const stage_group_out& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{lane_->me, message.stamp};
  if (auto gone = make_leave({message.group}); !gone)
    throw ferry_error{gone.error()};
  return {owner_->stamp()};
}

answered component_stager::begin(const begin_request& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{lane_->me, message.stamp};
  first_is_known_ = false;
  if (!through_->empty() && through_->board().at(comes_first_) != group_board::state::held)
    bring_in(comes_first_);
  return {owner_->stamp()};
}

answered component_stager::end(const end_request& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{lane_->me, message.stamp};
  std::vector<group_id> all;
  for (std::size_t i = 0; i != through_->groups().size(); ++i)
    all.push_back(group_id{static_cast<std::uint32_t>(i)});
  if (auto gone = make_leave(all); !gone)
    throw ferry_error{gone.error()};
  return {owner_->stamp()};
}

// One that cannot leave keeps no other. Retention is told once: it may have the device run dry.
result<void> component_stager::make_leave(const std::vector<group_id>& groups) {
  const auto before = staged_bytes();
  result<void> first_failure;
  for (const auto each : groups) {
    auto gone = attempt([&] { send_away(each); });
    if (!gone && first_failure)
      first_failure = std::move(gone);
  }
  if (const auto now = staged_bytes(); now != before)
    tell_retention(group_left{now});
  return first_failure;
}

void component_stager::bring_in(group_id group) {
  auto& board = through_->board();
  auto& entry = through_->at(group);
  for (const auto other : entry.excludes)
    if (board.at(other) == group_board::state::held)
      throw ferry_error{in_use(other)};
  if (auto gone = make_leave(entry.excludes); !gone)
    throw ferry_error{gone.error()};
  const auto known = board.claim(group);
  if (!known)
    return; // Held: it is there.
  const auto loaded = attempt([&] {
    const profile_scope shown{through_->ranges(), "stage", entry.path};
    owner_->observe(*known);
    if (entry.stager)
      entry.stager->load(*lane_->copies);
  });
  if (!loaded) {
    board.left(group);
    throw ferry_error{loaded.error()};
  }
  board.arrived(group, owner_->stamp());
  if (entry.stager)
    tell_retention(group_staged{staged_bytes()});
}

failure component_stager::in_use(group_id group) const {
  return {errc::busy, "'" + through_->at(group).path + "' is in use; it cannot leave the device"};
}

void component_stager::send_away(group_id group) {
  auto& board = through_->board();
  if (board.at(group) == group_board::state::away)
    return;
  auto& entry = through_->at(group);
  const auto known = board.claim(group);
  if (!known)
    throw ferry_error{in_use(group)};
  const auto offloaded = attempt([&] {
    owner_->observe(*known);
    if (entry.stager)
      entry.stager->offload(*lane_->copies);
  });
  if (!offloaded) {
    board.arrived(group, owner_->stamp());
    throw ferry_error{offloaded.error()};
  }
  board.left(group);
}

} // namespace ferry
