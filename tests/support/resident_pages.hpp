// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/memory.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace ferry::test {

/// Returns how many pages of `range`, which has some, are in the process, as its page table says.
[[nodiscard]] inline std::size_t resident_pages(const_bytes range) {
  const auto first = reinterpret_cast<std::uintptr_t>(range.data()) / page_bytes();
  const auto last = reinterpret_cast<std::uintptr_t>(&range.back()) / page_bytes();
  std::vector<std::uint64_t> entries(last - first + 1);
  const auto bytes = entries.size() * sizeof(std::uint64_t);
  const auto table = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto got =
      ::pread(table, entries.data(), bytes, static_cast<::off_t>(first * sizeof(std::uint64_t)));
  ::close(table);
  if (got != static_cast<::ssize_t>(bytes))
    throw std::runtime_error("the page table cannot be read");
  return static_cast<std::size_t>(
      std::ranges::count_if(entries, [](std::uint64_t entry) { return entry >> 63 != 0; }));
}

} // namespace ferry::test
