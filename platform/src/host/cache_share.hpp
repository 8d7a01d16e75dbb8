// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

namespace ferry {

/// Decides which pieces of files stay in the page cache behind their use: the first that come a
/// second time, as many as there is room for. Blocks of a denoiser come round in the same order
/// every step, so that a cache which keeps the latest, as the kernel's does, has just lost whatever
/// comes next; those of an encoder come once a request and would only take the room. Thread-safe.
class cache_share {
public:
  /// `room` in bytes; nothing: everything stays.
  explicit cache_share(std::optional<std::uint64_t> room) : room_(room) {}

  /// Notes a use of `piece`. Returns whether it stays.
  [[nodiscard]] bool keeps(const_bytes piece);

private:
  std::mutex mutex_;
  std::optional<std::uint64_t> room_; ///< What is left.
  std::set<const std::byte*> seen_;   ///< Where pieces begin that came once and found no place.
  std::set<const std::byte*> kept_;   ///< The same of those that stay.
};

} // namespace ferry
