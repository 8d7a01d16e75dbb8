// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "page_cache_room.hpp"

#include <ferry/platform/log.hpp>

#include <string>
#include <system_error>

namespace ferry {

namespace {

/// What cannot be read is no weight that could be kept.
std::uint64_t weight_bytes_of(const std::filesystem::path& checkpoint) {
  std::uint64_t bytes = 0;
  std::error_code unreadable;
  for (std::filesystem::recursive_directory_iterator
           at(checkpoint, std::filesystem::directory_options::follow_directory_symlink, unreadable),
       end;
       !unreadable && at != end; at.increment(unreadable)) {
    std::error_code none;
    if (at->path().extension() != ".safetensors")
      continue;
    if (const auto size = at->file_size(none); !none)
      bytes += size;
  }
  return bytes;
}

} // namespace

std::optional<std::uint64_t> page_cache_room(const std::filesystem::path& checkpoint,
                                             const host_limits& limits) {
  if (!limits.available)
    return std::nullopt;
  const auto room = *limits.available / 2;
  const auto weights = weight_bytes_of(checkpoint);
  if (weights <= room)
    return std::nullopt;
  log(log_level::info, "ferry.app",
      "limit page cache bytes=" + std::to_string(room) + " weights=" + std::to_string(weights) +
          " available=" + std::to_string(*limits.available) + " by=" + limits.decided_by);
  return room;
}

} // namespace ferry
