// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ferry {

// What the ranks of an exchange share, in memory that may belong to several processes. It starts
// as zeroes: every member means "nothing yet" then. Any process may end at any moment, so nobody
// ever holds a lock here.

/// A part of a shard, as one rank shows it to all.
struct exchange_window {
  static constexpr std::size_t capacity = std::size_t{1} << 20;

  std::uint64_t shard_bytes;
  std::uint32_t block;
  std::array<char, 52> what; ///< Ends in a zero.
  alignas(64) std::array<std::byte, capacity> bytes;
};

/// What a rank means by a collective that it is about to enqueue, where the bytes go another way.
struct exchange_plan {
  std::atomic<std::uint64_t> number; ///< Of the collective, plus 1. Written last.
  std::uint64_t shard_bytes;
  std::uint32_t block;
  std::array<char, 52> what; ///< Ends in a zero.
};

struct exchange_rank {
  /// While one is read, the next is written. Two are enough: who shows a part has copied all
  /// before, and nobody writes a window again before all have shown the part between.
  static constexpr std::uint64_t windows_each = 2;

  alignas(64) std::atomic<std::uint64_t> written; ///< Parts that it has shown.
  std::atomic<std::uint64_t> leaves_at; ///< The collective it will not join, once its end is gone.
  alignas(64) std::array<exchange_window, windows_each> windows;

  /// How far a rank may be ahead of another and still be compared with it.
  static constexpr std::uint64_t plans_each = 4096;

  alignas(64) std::atomic<std::uint64_t> planned;  ///< Collectives that it has a plan of.
  alignas(64) std::atomic<std::uint64_t> compared; ///< Of these, those it compared with the others.
  std::array<exchange_plan, plans_each> plans;

  [[nodiscard]] exchange_plan& plan_of(std::uint64_t number) noexcept {
    return plans[number % plans_each];
  }
  [[nodiscard]] exchange_window& window_of(std::uint64_t part) noexcept {
    return windows[part % windows_each];
  }
};

/// The first failure, where other processes can read it.
struct exchange_cause {
  /// 0 while all is well; then 1 + the rank that reports; `complete` is added once the rest holds.
  static constexpr std::uint32_t complete = 1U << 31;
  std::atomic<std::uint32_t> state;

  std::uint8_t code;
  std::int32_t rank;
  bool has_vendor_code;
  std::int32_t vendor_code;
  std::array<char, 256> block;   ///< Ends in a zero, like the next.
  std::array<char, 1024> detail; ///< Cut off where it is longer.
};

struct exchange_head {
  alignas(64) std::atomic<std::uint32_t> changes; ///< What all who wait sleep on.
  alignas(64) exchange_cause cause;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Finds its way in the bytes of an exchange.
class exchange_board {
public:
  explicit exchange_board(mutable_bytes shared) noexcept : shared_(shared) {}

  [[nodiscard]] static constexpr std::size_t size(int ranks) noexcept {
    return sizeof(exchange_head) + static_cast<std::size_t>(ranks) * sizeof(exchange_rank);
  }

  [[nodiscard]] exchange_head& head() const noexcept {
    return *reinterpret_cast<exchange_head*>(shared_.data());
  }
  [[nodiscard]] exchange_rank& rank(int number) const noexcept {
    return *reinterpret_cast<exchange_rank*>(shared_.data() + size(number));
  }

private:
  mutable_bytes shared_;
};

} // namespace ferry
