// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "component_stager.hpp"

#include "guarded.hpp"

#include <utility>
#include <vector>

namespace ferry {

component_stager::component_stager(caf::actor_config& config, std::shared_ptr<device> owner)
    : device_worker(config, std::move(owner), "stage") {}

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
  stop_work();
  retention_ = nullptr;
}

void component_stager::start() {
  go_to_work();
}

void component_stager::drain(const drain_child& message) {
  if (refusal())
    return;
  refuse(message.cause);
  if (through() != nullptr)
    through()->board().fail(message.cause);
}

answered component_stager::open(const open_groups& message) {
  const auto held = serve(message.through, &staging::permit);
  const host_thread::scope scope{me(), message.stamp};
  comes_first_ = {};
  first_is_known_ = false;
  return {owner().stamp()};
}

answered component_stager::drain(const drain_groups& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{me(), message.stamp};
  own_stream().record(through()->drained());
  return {owner().stamp()};
}

answered component_stager::close(const close_groups& message) {
  if (!at_work())
    return {};
  const auto held = keep();
  tell_retention(groups_closed{});
  return let_go(message.stamp);
}

// One that was started again knows nothing of what is there.
void component_stager::use(const use_cache_retention& message) {
  const auto held = keep();
  retention_ = message.whom;
  tell_retention(group_staged{staged_bytes()});
}

std::uint64_t component_stager::staged_bytes() const {
  std::uint64_t bytes = 0;
  if (through() != nullptr)
    for (const auto& each : through()->groups())
      if (each.stager && each.stager->loaded())
        bytes += each.stager->bytes();
  return bytes;
}

template <class Message>
void component_stager::tell_retention(Message message) {
  if (retention_)
    tell(this, retention_, std::move(message));
}

void component_stager::demand(const demand_group& message) {
  const auto held = keep();
  if (through() == nullptr)
    return;
  const auto brought = attempt([&] {
    check_ready();
    const host_thread::scope scope{me(), message.stamp};
    if (!std::exchange(first_is_known_, true) && !through()->board().was_held(comes_first_))
      comes_first_ = message.group;
    bring_in(message.group);
  });
  if (!brought)
    through()->board().refuse(message.group, brought.error());
}

answered component_stager::stage_in(const stage_group_in& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  bring_in(message.group);
  return {owner().stamp()};
}

answered component_stager::stage_out(const stage_group_out& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  if (auto gone = make_leave({message.group}); !gone)
    throw ferry_error{gone.error()};
  return {owner().stamp()};
}

answered component_stager::begin(const begin_request& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  first_is_known_ = false;
  if (!through()->empty() && through()->board().at(comes_first_) != group_board::state::held)
    bring_in(comes_first_);
  return {owner().stamp()};
}

answered component_stager::end(const end_request& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  std::vector<group_id> all;
  for (std::size_t i = 0; i != through()->groups().size(); ++i)
    all.push_back(group_id{static_cast<std::uint32_t>(i)});
  if (auto gone = make_leave(all); !gone)
    throw ferry_error{gone.error()};
  return {owner().stamp()};
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
  auto& board = through()->board();
  auto& entry = through()->at(group);
  for (const auto other : entry.excludes)
    if (board.at(other) == group_board::state::held)
      throw ferry_error{in_use(other)};
  if (auto gone = make_leave(entry.excludes); !gone)
    throw ferry_error{gone.error()};
  const auto known = board.claim(group);
  if (!known)
    return; // Held: it is there.
  const auto loaded = attempt([&] {
    const profile_scope shown{through()->ranges(), "stage", entry.path};
    owner().observe(*known);
    if (entry.stager)
      entry.stager->load(own_stream());
  });
  if (!loaded) {
    board.left(group);
    throw ferry_error{loaded.error()};
  }
  board.arrived(group, owner().stamp());
  if (entry.stager)
    tell_retention(group_staged{staged_bytes()});
}

failure component_stager::in_use(group_id group) const {
  return {errc::busy, "'" + through()->at(group).path + "' is in use; it cannot leave the device"};
}

void component_stager::send_away(group_id group) {
  auto& board = through()->board();
  if (board.at(group) == group_board::state::away)
    return;
  auto& entry = through()->at(group);
  const auto known = board.claim(group);
  if (!known)
    throw ferry_error{in_use(group)};
  const auto offloaded = attempt([&] {
    owner().observe(*known);
    if (entry.stager)
      entry.stager->offload(own_stream());
  });
  if (!offloaded) {
    board.arrived(group, owner().stamp());
    throw ferry_error{offloaded.error()};
  }
  board.left(group);
}

} // namespace ferry
