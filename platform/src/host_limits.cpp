// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_limits.hpp"

#include "control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// How one generation of control groups spells what both say.
struct group_files {
  const char* limit;
  const char* used;
  const char* reclaimable[2]; ///< Entries of `memory.stat` to add.
};

constexpr group_files unified{"memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr group_files legacy{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};

// The older generation writes the largest page-aligned number where there is no limit.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

/// Returns the number behind `key` in a file of `key value` lines.
std::optional<std::uint64_t> entry_of(const fs::path& file, std::string_view key) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    const std::string_view view{line};
    if (!view.starts_with(key) || view.size() == key.size() || view[key.size()] != ' ')
      continue;
    const auto value = view.find_first_not_of(' ', key.size());
    return value == std::string_view::npos ? std::nullopt : leading_number(view.substr(value));
  }
  return std::nullopt;
}

/// Takes the limit of the group at `directory` into account, if there is one.
void narrow(host_limits& found, const group_files& files, const fs::path& directory) {
  const auto limit = leading_number(directory / files.limit);
  if (!limit || *limit >= no_limit)
    return;
  found.limit = std::min(found.limit.value_or(*limit), *limit);
  const auto used = leading_number(directory / files.used).value_or(0);
  std::uint64_t reclaimable = 0;
  for (const auto* key : files.reclaimable)
    reclaimable += entry_of(directory / "memory.stat", key).value_or(0);
  const auto held = used - std::min(used, reclaimable);
  const auto left = *limit - std::min(*limit, held);
  if (found.available && *found.available <= left)
    return;
  found.available = left;
  found.decided_by = (directory / files.limit).string();
}

} // namespace

host_limits read_host_limits(const fs::path& root) {
  host_limits found;
  const auto meminfo = root / "proc/meminfo";
  if (const auto kib = entry_of(meminfo, "MemAvailable:")) {
    found.available = *kib * 1024;
    found.decided_by = meminfo.string();
  }
  for (const auto& group : control_groups(root, "memory"))
    narrow(found, group.unified ? unified : legacy, group.directory);
  return found;
}

} // namespace ferry
