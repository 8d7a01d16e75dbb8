// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <cstdint>

namespace ferry {

/// What an allocator that keeps freed device memory for later says, in bytes.
struct cache_telemetry {
  std::uint64_t free = 0;      ///< Of the device.
  std::uint64_t total = 0;     ///< Of the device.
  std::uint64_t reserved = 0;  ///< Held by the allocator.
  std::uint64_t allocated = 0; ///< Of that, handed out.

  /// Returns what is held for later.
  [[nodiscard]] std::uint64_t cached() const noexcept {
    return reserved > allocated ? reserved - allocated : 0;
  }
};

/// An allocator of device memory that keeps what was freed.
class allocator_cache {
public:
  allocator_cache() = default;
  allocator_cache(const allocator_cache&) = delete;
  allocator_cache& operator=(const allocator_cache&) = delete;
  virtual ~allocator_cache() = default;

  /// Fails if the device or the allocator does not say.
  [[nodiscard]] virtual result<cache_telemetry> telemetry() const = 0;

  /// Gives the device back what is held for later.
  /// @throws ferry_error
  virtual void release() = 0;
};

} // namespace ferry
