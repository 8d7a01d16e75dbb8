// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

// From here on this side finishes what the loader has left, whatever becomes of the enable: a
// tensor is never left half-way.
void placement::take_transforms() {
  const auto left = std::exchange(left_transforms_, nullptr);
  if (left == nullptr || left->empty())
    return;
  std::vector<const packed_layout*> layouts;
  std::vector<pending*> lists;
  for (auto* units : {&blocks_, &residents_})
    for (auto& each : *units) {
      layouts.push_back(&each.unit->layout());
      lists.push_back(&each.transforms);
    }
  for (std::size_t i = 0; i != group_units_.size(); ++i) {
    layouts.push_back(&plan_.transfers.groups[i].layout);
    lists.push_back(&group_transforms_[i]);
  }
  auto taken = left->take(subject_->root(), layouts);
  if (!taken)
    throw ferry_error{std::move(taken.error())};
  for (std::size_t i = 0; i != lists.size(); ++i)
    *lists[i] = std::move((*taken)[i]);
}

// One after the other, so that what is done is not done again after a failure.
void placement::settle(weight_unit& unit, pending& transforms) {
  for (; !transforms.empty(); transforms.pop_back())
    transforms.back().apply(unit);
}

// The block as the model computes with it is never held as a whole for longer than this: of a
// gathered block a rank keeps its part, and the pages that all ranks share.
host_shard placement::pin_transformed(const placed_unit& placed,
                                      const gather_manifest& manifest) const {
  auto sources = placed.unit->originals();
  std::vector<memory_kind> kinds;
  for (std::size_t i = 0; i != sources.size(); ++i)
    kinds.push_back(placed.unit->originals_kind(i));
  const auto made = rearranged_storages(placed.transforms, sources);
  for (std::size_t i = 0; i != made.size(); ++i)
    if (!made[i].empty()) {
      sources[i] = made[i];
      kinds[i] = memory_kind::pageable;
    }
  const auto whole = host_master::kept(placed.unit->layout(), sources, kinds);
  return host_shard::pinned(*owner_, whole, manifest, plan_.rank);
}

} // namespace ferry
