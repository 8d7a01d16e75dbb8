// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "storage_use.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ferry {

std::vector<std::size_t> overlap_groups(const std::vector<storage_use>& uses) {
  std::vector<std::size_t> by_place(uses.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  std::ranges::sort(by_place, {}, [&uses](std::size_t i) {
    return std::tuple(uses[i].storage, uses[i].begin, i);
  });

  std::vector<std::size_t> first_member(uses.size());
  for (std::size_t i = 0; i < by_place.size();) {
    const auto storage = uses[by_place[i]].storage;
    const auto start = i;
    auto end = uses[by_place[i]].end;
    auto first = by_place[i];
    for (++i; i < by_place.size(); ++i) {
      const auto& next = uses[by_place[i]];
      if (next.storage != storage || next.begin >= end)
        break;
      end = std::max(end, next.end);
      first = std::min(first, by_place[i]);
    }
    for (auto member = start; member < i; ++member)
      first_member[by_place[member]] = first;
  }

  std::vector<std::size_t> groups(uses.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < uses.size(); ++i)
    groups[i] = first_member[i] == i ? count++ : groups[first_member[i]];
  return groups;
}

} // namespace ferry
