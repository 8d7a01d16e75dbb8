// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_marks.hpp>
#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace ferry {

/// How well transfers hid behind compute. Times are on the device's clock.
struct overlap_summary {
  std::uint64_t blocks = 0;   ///< Uses of streamed blocks.
  nanoseconds compute{};      ///< Of their bodies, and of all else that steps took: of residents.
  nanoseconds transfer{};     ///< Sum of the copies: fetches, or those of this rank's shards.
  nanoseconds gather{};       ///< Sum of the gathers, where ranks hold the blocks together.
  nanoseconds exposed_wait{}; ///< Sum of what compute waited for a block.
  nanoseconds transfer_beside{}; ///< What of the copies ran while compute ran or waited.
  nanoseconds gather_beside{};   ///< The same of the gathers.

  /// Returns how long compute ran and waited.
  [[nodiscard]] nanoseconds observed() const noexcept { return compute + exposed_wait; }

  /// Returns the least that the same could have taken: compute, the copies beside it and the
  /// gathers beside it each have a queue of their own, and the longest one remains. Never more than
  /// `observed()`.
  [[nodiscard]] nanoseconds lower_bound() const noexcept;

  /// Returns (serial - observed) / (serial - bound), between 0 and 1, where serial is the sum of
  /// compute, copies and gathers. 1 if there is nothing to hide.
  [[nodiscard]] double efficiency() const noexcept;
};

/// Adds up for how long two lists of intervals, each in order, have something going on at once.
/// What overlaps an earlier interval of its own list counts once; a list that gets ahead of the
/// other by more than `most_open` intervals loses the first of them.
class common_time {
public:
  using interval = std::pair<nanoseconds, nanoseconds>;
  static constexpr std::size_t most_open = 4096;

  void add_first(interval next) { add(first_, next); }
  void add_second(interval next) { add(second_, next); }

  [[nodiscard]] nanoseconds sum() const noexcept { return sum_; }

private:
  struct list {
    std::deque<interval> open; ///< Those that the other list has not got past.
  };

  void add(list& to, interval next);

  list first_;
  list second_;
  nanoseconds sum_{};
};

/// Adds up into an `overlap_summary`. Uses and what ran between them come in order, so do copies,
/// and so do gathers. Not thread-safe.
class overlap_meter {
public:
  /// Takes notice of the marks of a block gate and of steps, and of copies and gathers tagged with
  /// a block; ignores the rest.
  void add(const operation_span& span);

  void add_use(const block_span& use);
  /// Compute ran something else than streamed blocks.
  void add_other(nanoseconds from, nanoseconds until);
  void add_copy(nanoseconds start, nanoseconds end);
  void add_gather(nanoseconds start, nanoseconds end);

  [[nodiscard]] overlap_summary summary() const noexcept;

private:
  void add_time(nanoseconds from, nanoseconds until);

  overlap_summary sums_;
  block_marks marks_;
  common_time copies_; ///< Beside compute.
  common_time gathers_;
  std::optional<nanoseconds> idle_since_; ///< In a step: since the last use, or its beginning.
};

} // namespace ferry
