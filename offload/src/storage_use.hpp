// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>

#include <cstddef>
#include <vector>

namespace ferry {

/// Bytes of a storage that somebody uses.
struct storage_use {
  object_id storage{};
  std::size_t begin = 0;
  std::size_t end = 0; ///< One past the last byte.
};

/// Numbers the groups of uses that hang together by overlapping, directly or through others.
/// Returns the group of each use; numbers follow the first appearance.
[[nodiscard]] std::vector<std::size_t> overlap_groups(const std::vector<storage_use>& uses);

} // namespace ferry
