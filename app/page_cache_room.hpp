// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/host_limits.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ferry {

/// Returns how many bytes of a checkpoint's weights may stay in the page cache while it streams:
/// half of what `limits` leave, so that the rest is for what is computed. Nothing where all of them
/// fit into that: then the system may keep what it likes.
[[nodiscard]] std::optional<std::uint64_t> page_cache_room(const std::filesystem::path& checkpoint,
                                                           const host_limits& limits);

} // namespace ferry
