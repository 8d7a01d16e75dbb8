// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "staging.hpp"

#include <algorithm>

namespace ferry {
namespace {

std::vector<std::vector<group_id>> excludes_of(const transfer_plan& plan) {
  std::vector<std::vector<group_id>> all;
  for (const auto& each : plan.groups)
    all.push_back(each.excludes);
  return all;
}

} // namespace

staging::staging(device& owner, const transfer_plan& plan)
    : owner_(&owner), board_(excludes_of(plan)) {
  for (const auto& each : plan.groups)
    groups_.push_back({.path = each.path,
                       .excludes = each.excludes,
                       .computes = each.computes,
                       .stager = nullptr,
                       .used_on = {}});
}

staging::group& staging::at(group_id id) noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(id) < groups_.size());
  return groups_[static_cast<std::size_t>(id)];
}

void staging::add_buffers(std::size_t bytes) {
  buffers_.emplace(*owner_, bytes);
  for (auto& each : groups_)
    if (each.stager != nullptr)
      each.stager->stage_through(&*buffers_);
}

void staging::close() noexcept {
  permit_->end();
  buffers_.reset();
  drained_.reset();
  memory_.clear();
}

std::optional<group_id> staging::find(std::string_view path) const noexcept {
  const auto found = std::ranges::find(groups_, path, &group::path);
  if (found == groups_.end())
    return std::nullopt;
  return group_id{static_cast<std::uint32_t>(found - groups_.begin())};
}

} // namespace ferry
