// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace ferry {

/// One group whose limits hold for this process.
struct control_group {
  bool unified = true; ///< Of the second generation.
  std::filesystem::path directory;
};

/// Returns the groups of `controller` that this process is in, from the root down, of both
/// generations, below `root`, which is `/` but for tests. Where a container sees its own group as
/// the root, that one is among them. Some directories may not be there.
[[nodiscard]] std::vector<control_group> control_groups(const std::filesystem::path& root,
                                                        std::string_view controller);

/// Returns the number that `text`, or the first word of `file`, begins with.
[[nodiscard]] std::optional<std::uint64_t> leading_number(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> leading_number(const std::filesystem::path& file);

} // namespace ferry
