// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/usable_cores.hpp"

#include "control_groups.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace ferry {

namespace {

std::size_t cores_of_affinity() {
  ::cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return std::max(1, CPU_COUNT(&allowed));
  return std::max(1U, std::thread::hardware_concurrency()); // More than a set has room for.
}

/// Returns how many cores `group` may keep busy, nothing where it is not limited.
std::optional<std::size_t> quota_of(const control_group& group) {
  std::optional<std::uint64_t> quota;
  std::optional<std::uint64_t> period;
  if (group.unified) {
    std::ifstream in{group.directory / "cpu.max"}; // "max 100000" or "150000 100000"
    std::string most;
    std::string every;
    in >> most >> every;
    quota = leading_number(std::string_view{most});
    period = leading_number(std::string_view{every});
  } else { // Without a quota, it is -1.
    quota = leading_number(group.directory / "cpu.cfs_quota_us");
    period = leading_number(group.directory / "cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0)
    return std::nullopt;
  return std::max<std::size_t>(1, *quota / *period);
}

} // namespace

std::size_t usable_cores(const std::filesystem::path& root) {
  auto cores = cores_of_affinity();
  for (const auto& group : control_groups(root, "cpu"))
    cores = std::min(cores, quota_of(group).value_or(cores));
  return cores;
}

} // namespace ferry
