// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/loader_transforms.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ferry {
namespace {

/// A tied tensor has one set of bytes, under whatever name.
bool is_there(const std::vector<pending_transform>& all, const weight_place& place) noexcept {
  return std::ranges::any_of(all, [&](const pending_transform& each) {
    return each.place.storage == place.storage && each.place.first == place.first;
  });
}

} // namespace

std::vector<std::byte> pending_transform::rearranged(const_bytes storage) const {
  std::vector<std::byte> stored(place.bytes());
  gather(place, storage, stored);
  std::vector<std::byte> made(stored.size());
  how->apply({.name = key, .type = place.type, .shape = place.shape, .bytes = stored}, made);
  return made;
}

void pending_transform::apply(weight_unit& unit) const {
  const auto made = rearranged(unit.originals()[place.storage]);
  scatter(made, place, unit.writable_original(place.storage));
}

std::vector<std::vector<std::byte>> rearranged_storages(std::span<const pending_transform> pending,
                                                        std::span<const const_bytes> originals) {
  std::vector<std::vector<std::byte>> made(originals.size());
  for (const auto& each : pending) {
    const auto original = originals[each.place.storage];
    auto& storage = made[each.place.storage];
    if (storage.empty())
      storage.assign(original.begin(), original.end());
    scatter(each.rearranged(original), each.place, storage);
  }
  return made;
}

loader_transforms::loader_transforms(const host_weight_plan& plan) {
  for (const auto& [name, binding] : plan.bindings)
    if (binding.transform != nullptr)
      by_name_.emplace(name, entry{binding.key, binding.transform});
}

result<std::vector<std::vector<pending_transform>>>
loader_transforms::find(const std::shared_ptr<const module_node>& root,
                        std::span<const packed_layout* const> units) const {
  const weight_places places{root, units};
  std::vector<std::vector<pending_transform>> by_unit(units.size());
  for (const auto& [name, each] : by_name_) {
    const auto dot = name.find('.');
    const std::array rest{name.substr(dot + 1)};
    auto found = places.find(name.substr(0, dot), rest);
    if (!found)
      return tl::unexpected(
          failure{errc::unsupported, "'" + name + "' is to be transformed by '" +
                                         std::string{each.how->name()} +
                                         "', which is not possible: " + found.error().detail});
    auto& place = found->front();
    auto& there = by_unit[place.unit];
    if (place.bytes() != 0 && !is_there(there, place))
      there.push_back({std::move(place), each.key, each.how});
  }
  return by_unit;
}

result<std::vector<std::vector<pending_transform>>>
loader_transforms::take(const std::shared_ptr<const module_node>& root,
                        std::span<const packed_layout* const> units) {
  auto found = find(root, units);
  if (found)
    by_name_.clear();
  return found;
}

} // namespace ferry
