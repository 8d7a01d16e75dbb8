// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/log.hpp>

#include "guarded.hpp"
#include "placement.hpp"

#include <utility>

namespace ferry {
namespace {

/// Keeps the first failure and logs them all.
void note(std::optional<failure>& first, failure next, const std::string& what) {
  log(log_level::error, "ferry.actors", what + " reason=" + describe(next));
  if (!first)
    first = std::move(next);
}

} // namespace

result<void> placement::take_back() {
  auto kept = unhook_all();
  if (!kept)
    kept = restore_all();
  if (!kept)
    kept = unregister_pages();
  if (kept)
    return tl::unexpected(failure{
        errc::incomplete, "the backend is not fully disabled; disable again: " + kept->detail,
        kept->block, kept->rank, kept->vendor_code});
  through_->close();
  groups_->close();
  group_units_.clear();
  leased_groups_.clear();
  group_transforms_.clear();
  blocks_.clear();
  residents_.clear();
  watch_.reset();
  added_slots_.clear();
  arena_.reset();
  return {};
}

std::optional<failure> placement::unhook_all() {
  std::optional<failure> first;
  for (auto& each : blocks_) {
    if (each.hooked == object_id{})
      continue;
    if (auto off = attempt([&] { subject_->remove_block_hook(each.hooked); }); !off)
      note(first, std::move(off.error()), "keep hook block=" + each.path);
    else
      each.hooked = object_id{};
  }
  std::erase_if(group_hooks_, [&](object_id module) {
    auto off = attempt([&] { subject_->remove_group_hook(module); });
    if (!off)
      note(first, std::move(off.error()), "keep hook of a group");
    return off.has_value();
  });
  return first;
}

std::optional<failure> placement::restore_all() {
  std::optional<failure> first;
  for (auto* group : {&blocks_, &residents_})
    for (auto& each : *group) {
      if (!each.displaced && !each.leased && each.transforms.empty())
        continue;
      auto back = attempt([&] {
        settle(*each.unit, each.transforms);
        if (each.leased)
          own_originals(*each.unit);
        if (each.displaced)
          each.unit->restore(each.master->whole());
      });
      if (!back) {
        note(first, about(std::move(back.error()), each.path), "keep master unit=" + each.path);
      } else {
        each.displaced = false;
        each.leased = false;
        each.shard.reset();
        each.master.reset();
      }
    }
  for (std::size_t i = 0; i != group_units_.size(); ++i) {
    auto& each = groups_->groups()[i];
    auto back = attempt([&] {
      if (units_made_ && !group_transforms_[i].empty())
        settle(unit_of_group(i), group_transforms_[i]);
      if (units_made_ && leased_groups_[i])
        own_originals(unit_of_group(i));
      if (each.stager != nullptr)
        each.stager->restore();
    });
    if (!back) {
      note(first, about(std::move(back.error()), each.path), "keep master unit=" + each.path);
    } else {
      each.stager.reset();
      if (units_made_)
        leased_groups_[i] = false;
    }
  }
  return first;
}

} // namespace ferry
