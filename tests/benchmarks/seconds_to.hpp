// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>

namespace ferry::bench {

/// Returns the seconds until `make` returns. What it made goes after that.
template <class Clock = std::chrono::steady_clock, class Make>
[[nodiscard]] double seconds_to(const Make& make) {
  const auto started = Clock::now();
  [[maybe_unused]] const auto made = make();
  return std::chrono::duration<double>(Clock::now() - started).count();
}

} // namespace ferry::bench
