// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement.hpp"

#include <algorithm>

namespace ferry {
namespace {

/// Counts what copies take from a master or a shard, by where it lies.
void count_host(std::span<const host_master::segment> segments, component_state& into) {
  for (const auto& each : segments)
    (each.kind == memory_kind::pinned ? into.pinned_bytes : into.pageable_bytes) +=
        each.source.size();
}

} // namespace

std::uint64_t placement::pinned_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& each : blocks_) {
    bytes += each.master ? each.master->whole().size() : 0;
    bytes += each.shard ? each.shard->whole().size() : 0;
  }
  for (const auto& each : groups_->groups())
    bytes += each.stager ? each.stager->pinned_bytes() : 0;
  bytes += through_->staging() != nullptr ? through_->staging()->size() : 0;
  bytes += groups_->buffers() != nullptr ? groups_->buffers()->size() : 0;
  return bytes;
}

std::size_t placement::blocks_in_place() const noexcept {
  std::size_t count = 0;
  for (const auto& each : plan_.transfers.blocks)
    count += through_->at(each.id).in_place ? 1U : 0U;
  return count;
}

std::size_t placement::staged_stores() const noexcept {
  std::size_t count = 0;
  for (const auto& each : plan_.transfers.blocks)
    count += through_->at(each.id).staged ? 1U : 0U;
  for (const auto& each : groups_->groups())
    count += each.stager != nullptr && each.stager->staged() ? 1U : 0U;
  return count;
}

std::string placement::held() const {
  if (const auto block = through_->board().any_in_use())
    return "block '" + through_->at(*block).path + "'";
  if (const auto group = groups_->board().any_held())
    return "component '" + groups_->at(*group).path + "'";
  return "what it uses";
}

// A unit that is not placed yet, or was taken back already, is nowhere.
std::map<std::string, component_state> placement::components() const {
  auto states = plan_.components;
  for (const auto& [path, units] : plan_.units) {
    auto& state = states.at(path);
    for (const auto i : units.blocks) {
      if (i >= blocks_.size())
        continue;
      state.blocks_in_place += through_->at(plan_.transfers.blocks[i].id).in_place ? 1U : 0U;
      if (blocks_[i].master)
        count_host(blocks_[i].master->segments(), state);
      if (blocks_[i].shard && !blocks_[i].shard->whole().empty())
        count_host(blocks_[i].shard->segments(), state);
    }
    auto stays = units.blocks.empty() && units.groups.empty() && !units.residents.empty();
    for (const auto i : units.residents) {
      const auto* const placed = i < residents_.size() ? &residents_[i] : nullptr;
      if (placed != nullptr && placed->master)
        count_host(placed->master->segments(), state);
      if (placed != nullptr && placed->displaced)
        state.device_bytes += plan_.transfers.residents[i].layout.bytes;
      else
        stays = false;
    }
    auto came = !units.groups.empty();
    for (const auto i : units.groups) {
      const auto* const stager = groups_->groups()[i].stager.get();
      if (stager != nullptr && stager->master() != nullptr)
        count_host(stager->master()->segments(), state);
      if (groups_->board().is_here(plan_.transfers.groups[i].id))
        state.device_bytes += plan_.transfers.groups[i].layout.bytes;
      else
        came = false;
    }
    state.on_device = stays || came;
  }
  return states;
}

} // namespace ferry
