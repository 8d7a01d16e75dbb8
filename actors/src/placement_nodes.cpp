// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/log.hpp>

#include "placement.hpp"

#include <algorithm>

namespace ferry {
namespace {

std::string text_of(const std::vector<int>& nodes) {
  std::string text;
  for (const auto each : nodes)
    text += (text.empty() ? "" : ",") + std::to_string(each);
  return text.empty() ? "unknown" : text;
}

} // namespace

// A store of which nothing can be learned is not counted.
void placement::count_misplaced(bool preferred) {
  const auto node = owner_->traits().node;
  if (!node || memory_nodes_ == nullptr || memory_nodes_->known() == std::vector{*node})
    return;
  std::string first;
  const auto look_at = [&](const std::string& path, const_bytes store) {
    if (store.empty())
      return;
    const auto found = memory_nodes_->nodes_of(store);
    log(log_level::trace, "ferry.actors", "pin store path=" + path + " nodes=" + text_of(found));
    if (std::ranges::all_of(found, [&](int each) { return each == *node; }))
      return;
    if (misplaced_stores_++ == 0)
      first = path + " nodes=" + text_of(found);
  };
  for (const auto& each : blocks_) {
    look_at(each.path, each.master->whole());
    look_at(each.path, each.shard ? each.shard->whole() : const_bytes{});
  }
  for (const auto& each : groups_->groups())
    if (each.stager != nullptr)
      look_at(each.path, each.stager->store().master->whole());
  if (misplaced_stores_ != 0)
    log(log_level::warn, "ferry.actors",
        "misplace stores count=" + std::to_string(misplaced_stores_) +
            " node=" + std::to_string(*node) + " first=" + first + " reason=\"" +
            (preferred ? "the node was preferred, and its pages were not to be had"
                       : "the node could not be preferred") +
            '"');
}

} // namespace ferry
