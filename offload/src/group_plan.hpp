// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/transfer_plan.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferry {

enum class group_side : std::uint8_t { encoder, dit };

/// A group before it is known what has to leave for it.
struct group_draft {
  std::string path = {};
  std::vector<std::shared_ptr<const module_node>> entries = {};
  group_side side = group_side::dit;
  std::size_t computes = 1; ///< Blocks that one use of it runs.
  bool resident = false;    ///< Its tensors stay: it only makes others leave.
  packed_layout layout = {};
};

/// Numbers the groups and decides what leaves for each and where it lies. What has no bytes of its
/// own and makes nothing leave is left out.
///
/// A group does not make one leave that contains it or is part of it: one calls the other.
[[nodiscard]] std::vector<planned_group> plan_groups(std::vector<group_draft> drafts);

/// Returns the size of the region in which the groups lie.
[[nodiscard]] std::size_t group_region(const std::vector<planned_group>& groups) noexcept;

} // namespace ferry
