// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "process/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ferry {

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 nanoseconds patience) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const auto limit = ::timespec{.tv_sec = seconds.count(), .tv_nsec = (patience - seconds).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace ferry
