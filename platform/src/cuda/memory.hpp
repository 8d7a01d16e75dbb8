// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/calls.hpp"
#include "ferry/platform/device.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace ferry::cuda {

/// The memory of one device: blocks of its own, pinned blocks of the host, and pages of others that
/// are registered with it. Thread-safe; no call into CUDA is made under its lock.
///
/// Pinned memory is mapped, touched by several threads and then registered: about five times as
/// fast as `cudaHostAlloc`, and no larger than asked for.
class memory {
public:
  memory(const calls& through, std::optional<std::size_t> ceiling, bool registers_read_only);
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  /// Gives back all that is left: registrations, then pinned memory, then the device's.
  ~memory();

  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes);

  /// What CUDA does not take back is kept, for the destructor to try again.
  void release(memory_kind kind, mutable_bytes block) noexcept;

  [[nodiscard]] device_memory usage() const;

  void register_pages(const_bytes pages);
  void unregister_pages(const_bytes pages);

  /// Returns whether all of `range` lies in one registration and CUDA still says so of it.
  [[nodiscard]] bool registered(const_bytes range) const;

  /// Returns whether all of `range` lies in one block of `kind`, or in one registration.
  [[nodiscard]] bool holds(memory_kind kind, const_bytes range) const;

  /// Fills in what concerns memory.
  void report(device_counters& counters) const;

private:
  struct entry {
    memory_kind kind;
    std::size_t bytes;
    bool ended; ///< Its owner has given it back, or does not have it yet.
  };
  struct account {
    std::uint64_t blocks = 0;
    std::uint64_t now = 0;
    std::uint64_t peak = 0;
  };
  [[nodiscard]] mutable_bytes allocate_on_device(std::size_t bytes);
  [[nodiscard]] mutable_bytes allocate_pinned(std::size_t bytes);
  /// Refuses what is beyond the ceiling, together with what others are about to allocate.
  void reserve(std::size_t bytes);
  void forget(const std::byte* data);
  [[nodiscard]] bool give_back(const std::byte* data, const entry& given) const noexcept;
  [[nodiscard]] account& account_of(memory_kind kind) noexcept;
  void add(const std::byte* data, memory_kind kind, std::size_t bytes);
  [[nodiscard]] bool touched(const_bytes range) const noexcept;

  const calls* call_;
  std::optional<std::size_t> ceiling_;
  bool registers_read_only_;

  mutable std::mutex mutex_;
  std::map<const std::byte*, entry> entries_; ///< By where they begin.
  account device_;
  std::uint64_t reserved_ = 0; ///< Of the device, for allocations that are under way.
  account pinned_;
  std::uint64_t registered_ = 0;
  std::uint64_t allocations_ = 0;
};

} // namespace ferry::cuda
