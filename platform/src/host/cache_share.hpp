// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

namespace ferry {

/// Decides which pieces of files stay in the page cache behind their use: the first that come, as
/// many as there is room for. Blocks come round again in the same order, so that a cache which
/// keeps the latest, as the kernel's does, has just lost whatever comes next. Thread-safe.
class cache_share {
public:
  /// `room` in bytes; nothing: everything stays.
  explicit cache_share(std::optional<std::uint64_t> room) : room_(room) {}

  /// Returns whether `piece` stays. The answer for the same piece is always the same.
  [[nodiscard]] bool keeps(const_bytes piece);

private:
  std::mutex mutex_;
  std::optional<std::uint64_t> room_; ///< What is left.
  std::set<const std::byte*> kept_;   ///< Where pieces that stay begin.
};

} // namespace ferry
