// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_plan.hpp"

#include <ferry/platform/memory.hpp>

#include "subtree.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

namespace {

node_ids modules_of(const group_draft& draft) {
  node_ids all;
  for (const auto& entry : draft.entries)
    visit_subtree("", entry, all, [](const std::string&, const module_node&) {});
  return all;
}

bool enters(const node_ids& modules, const group_draft& other) {
  return std::ranges::any_of(
      other.entries, [&](const auto& entry) { return modules.contains(entry->identity()); });
}

/// Returns what leaves for each draft.
std::vector<std::vector<std::size_t>> leavers(const std::vector<group_draft>& drafts) {
  std::vector<node_ids> modules;
  modules.reserve(drafts.size());
  for (const auto& each : drafts)
    modules.push_back(modules_of(each));

  std::vector<std::vector<std::size_t>> all(drafts.size());
  for (std::size_t i = 0; i != drafts.size(); ++i)
    for (std::size_t j = 0; j != drafts.size(); ++j) {
      const auto same_side =
          drafts[i].side == group_side::encoder && drafts[j].side == group_side::encoder;
      const auto nested = enters(modules[i], drafts[j]) || enters(modules[j], drafts[i]);
      if (i != j && !same_side && !nested && !drafts[j].resident)
        all[i].push_back(j);
    }
  return all;
}

bool exclude_each_other(const planned_group& a, const planned_group& b) {
  return std::ranges::find(a.excludes, b.id) != a.excludes.end() &&
         std::ranges::find(b.excludes, a.id) != b.excludes.end();
}

std::size_t end_of(const planned_group& group) noexcept {
  return group.offset + align_up(group.layout.bytes);
}

/// Returns where those end that are placed and may be there together with `group`.
std::size_t first_place(const planned_group& group, std::span<const planned_group> placed) {
  std::size_t offset = 0;
  for (const auto& each : placed)
    if (!exclude_each_other(each, group))
      offset = std::max(offset, end_of(each));
  return offset;
}

} // namespace

std::vector<planned_group> plan_groups(std::vector<group_draft> drafts) {
  std::erase_if(drafts, [](const auto& each) { return !each.resident && each.layout.bytes == 0; });
  const auto leaving = leavers(drafts);

  std::vector<group_id> ids(drafts.size());
  std::uint32_t count = 0;
  for (std::size_t i = 0; i != drafts.size(); ++i)
    if (!drafts[i].resident || !leaving[i].empty())
      ids[i] = group_id{count++};

  std::vector<planned_group> groups;
  for (std::size_t i = 0; i != drafts.size(); ++i) {
    if (drafts[i].resident && leaving[i].empty())
      continue;
    auto& made = groups.emplace_back();
    made.id = ids[i];
    made.path = std::move(drafts[i].path);
    made.layout = std::move(drafts[i].layout);
    made.computes = drafts[i].computes;
    for (const auto& entry : drafts[i].entries)
      made.entries.push_back(entry->identity());
    for (const auto j : leaving[i])
      made.excludes.push_back(ids[j]);
  }
  for (std::size_t i = 0; i != groups.size(); ++i)
    groups[i].offset = first_place(groups[i], std::span(groups).first(i));
  return groups;
}

std::size_t group_region(const std::vector<planned_group>& groups) noexcept {
  std::size_t bytes = 0;
  for (const auto& each : groups)
    bytes = std::max(bytes, end_of(each));
  return bytes;
}

} // namespace ferry
