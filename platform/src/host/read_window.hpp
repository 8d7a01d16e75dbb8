// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ferry {

/// Decides which part of the files to ask for next: at most `width` bytes beyond what has been
/// copied, in the order of the copies.
class read_window {
public:
  explicit read_window(std::size_t width) : width_(width) {}

  /// Adds the source of a copy that has been queued.
  void expect(const_bytes source);

  /// Returns the next range to ask for, empty once the window is full.
  [[nodiscard]] const_bytes next();

  /// Moves the window: so many bytes have been copied.
  void copied(std::size_t bytes) noexcept { copied_ += bytes; }

private:
  std::size_t width_;
  std::deque<const_bytes> expected_;
  std::uint64_t asked_ = 0;
  std::uint64_t copied_ = 0;
};

} // namespace ferry
