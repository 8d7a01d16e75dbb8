// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_limits.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <vector>

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// How one generation of control groups spells what both say.
struct group_files {
  const char* mount; ///< Of the memory controller, below the root.
  const char* limit;
  const char* used;
  const char* reclaimable[2]; ///< Entries of `memory.stat` to add.
};

constexpr group_files unified{
    "sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr group_files legacy{"sys/fs/cgroup/memory",
                             "memory.limit_in_bytes",
                             "memory.usage_in_bytes",
                             {"total_active_file", "total_inactive_file"}};

// The older generation writes the largest page-aligned number where there is no limit.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data())
    return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in{file};
  std::string word;
  in >> word;
  return number(word);
}

/// Returns the number behind `key` in a file of `key value` lines.
std::optional<std::uint64_t> entry_of(const fs::path& file, std::string_view key) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    const std::string_view view{line};
    if (!view.starts_with(key) || view.size() == key.size() || view[key.size()] != ' ')
      continue;
    const auto value = view.find_first_not_of(' ', key.size());
    return value == std::string_view::npos ? std::nullopt : number(view.substr(value));
  }
  return std::nullopt;
}

struct membership {
  const group_files* files;
  std::string path; ///< Begins with a slash.
};

/// Reads lines of the form `id:controllers:path`.
std::vector<membership> memberships(const fs::path& root) {
  std::vector<membership> all;
  std::ifstream in{root / "proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,")
      all.push_back({&unified, line.substr(second + 1)});
    else if (controllers.find(",memory,") != std::string::npos)
      all.push_back({&legacy, line.substr(second + 1)});
  }
  return all;
}

/// Takes the limit of the group at `directory` into account, if there is one.
void narrow(host_limits& found, const group_files& files, const fs::path& directory) {
  const auto limit = number_in(directory / files.limit);
  if (!limit || *limit >= no_limit)
    return;
  found.limit = std::min(found.limit.value_or(*limit), *limit);
  const auto used = number_in(directory / files.used).value_or(0);
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
  for (const auto& [files, path] : memberships(root)) {
    auto directory = root / files->mount;
    narrow(found, *files, directory);
    for (const auto& part : fs::path{path}.relative_path()) {
      directory /= part;
      narrow(found, *files, directory);
    }
  }
  return found;
}

} // namespace ferry
