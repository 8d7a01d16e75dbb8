// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ferry {

/// What the operating system lets this process have of the machine's memory, at one moment.
struct host_limits {
  /// The tightest memory limit of the control groups that the process is in; nothing: no limit.
  std::optional<std::uint64_t> limit = std::nullopt;

  /// How much more memory may be taken before the system runs out or a limit is met. Page cache
  /// that can be given up counts as free. Nothing: the system does not say.
  std::optional<std::uint64_t> available = std::nullopt;

  std::string decided_by = {}; ///< The file that `available` is due to, for messages.

  friend bool operator==(const host_limits&, const host_limits&) = default;
};

/// Reads the limits below `root`, which is `/` but for tests: `proc/meminfo`, and along the path
/// in `proc/self/cgroup` the memory controller of both generations of control groups. A limit holds
/// for every group below it, so all groups from the root to that of the process count. Where a
/// container sees its own group as the root, that one is read.
///
/// What is missing or unreadable limits nothing. Reads a few small files of the kernel.
[[nodiscard]] host_limits read_host_limits(const std::filesystem::path& root);

} // namespace ferry
