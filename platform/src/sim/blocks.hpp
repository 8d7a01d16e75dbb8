// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace ferry::sim {

/// One allocation of device or pinned memory.
struct memory_allocation {
  memory_kind kind = memory_kind::device;
  std::uint64_t device = 0; ///< Index of the device in its machine.
  std::uint64_t number = 0;
  std::size_t bytes = 0;
  std::uintptr_t begin = 0;
};

/// All allocations of a machine. Not thread-safe.
///
/// Released blocks are kept for a while, poisoned, so that late accesses read poison and the
/// address does not come back as somebody else's.
class block_table {
public:
  block_table() = default;
  block_table(const block_table&) = delete;
  block_table& operator=(const block_table&) = delete;
  ~block_table();

  /// Returns null data if the machine has no memory left.
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::uint64_t device, std::size_t bytes,
                                       bool contents);
  /// @pre `find` knows the block
  void release(std::uintptr_t begin);
  void release_all_of(std::uint64_t device);

  /// Returns the live allocation that has all of `range`, or null.
  [[nodiscard]] const memory_allocation* find(const_bytes range) const noexcept;
  /// Returns a live allocation that has some of `range`, or null.
  [[nodiscard]] const memory_allocation* touched_by(const_bytes range) const noexcept;
  /// Returns the last owner of `range` if it has been released lately, or null.
  [[nodiscard]] const memory_allocation* released(const_bytes range) const noexcept;

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [begin, held] : live_)
      visit(held.about);
  }

  /// Returns "device block 3, bytes 256 to 512", or "host memory, 256 bytes".
  [[nodiscard]] std::string describe(std::uintptr_t begin, std::uintptr_t end) const;

private:
  struct held_block {
    memory_allocation about;
    bool contents = true;
  };
  static void give_back(const held_block& block) noexcept;

  std::map<std::uintptr_t, held_block> live_;
  std::deque<held_block> quarantine_;
  std::size_t quarantined_ = 0;
  std::uint64_t next_number_ = 1;
};

} // namespace ferry::sim
