// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <map>
#include <mutex>

namespace ferry {

/// Host memory that is handed out as device memory, up to a ceiling, and as pinned memory. Every
/// block is a mapping of its own: released memory leaves the process at once. Thread-safe.
class bounded_memory {
public:
  explicit bounded_memory(std::size_t ceiling) : ceiling_(ceiling) {}
  bounded_memory(const bounded_memory&) = delete;
  bounded_memory& operator=(const bounded_memory&) = delete;
  ~bounded_memory();

  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes);

  /// Returns false if no such block is out.
  [[nodiscard]] bool release(memory_kind kind, mutable_bytes bytes) noexcept;

  [[nodiscard]] device_memory usage() const;

  /// Fills in what concerns memory.
  void report(device_counters& counters) const;

private:
  struct block {
    memory_kind kind;
    std::size_t bytes;
  };
  struct account {
    std::uint64_t now = 0;
    std::uint64_t peak = 0;
  };

  [[nodiscard]] account& account_of(memory_kind kind) noexcept;

  mutable std::mutex mutex_;
  std::size_t ceiling_;
  std::map<std::byte*, block> blocks_;
  account device_;
  account pinned_;
  std::uint64_t allocations_ = 0;
};

} // namespace ferry
