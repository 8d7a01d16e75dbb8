// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/overlap.hpp>
#include <ferry/offload/trace.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// Why a block was not there when compute had nothing left to do but it.
enum class wait_cause : std::uint8_t {
  link_busy,     ///< Copies, or gathers, of other blocks were in front of it.
  slot_held,     ///< The slot that it goes to was not released.
  demanded_late, ///< It was asked for too late: nothing had been submitted ahead.
  message_late,  ///< A message on the way of its fetch waited for its actor.
  rank_late,     ///< Its gather waited for another rank.
  source_cold,   ///< Its host memory was slower than that of others: not pinned, not in memory.
  copy_slow,     ///< Its copy was slower than others, while no read of a disk was counted.
  not_recorded,  ///< The trace does not have its copy, or not what held it up.
};

/// Returns `link_busy`, `slot_held` and so on.
[[nodiscard]] std::string_view to_string(wait_cause cause) noexcept;

/// One use of a block that compute stood still for.
struct late_block {
  std::uint32_t rank = 0;
  std::uint32_t block = 0;
  std::uint64_t ticket = 0;
  nanoseconds asked{}; ///< When the wait began.
  nanoseconds wait{};
  wait_cause cause = wait_cause::not_recorded;
  std::optional<std::uint32_t> by_block; ///< What the link was busy with, or held the slot.
  std::optional<std::uint32_t> by_rank;
  std::string why;    ///< One sentence for people.
  std::string advice; ///< What would help, by the schedule model where it can tell.
};

/// All uses of one block on one rank.
struct block_part {
  std::uint32_t rank = 0;
  std::uint32_t block = 0;
  std::uint64_t uses = 0;
  std::uint64_t late = 0;
  nanoseconds wait{};     ///< Of all uses.
  nanoseconds transfer{}; ///< Of one use, in the mean: its copies and gathers.
  nanoseconds compute{};  ///< Of one use, in the mean.
};

/// One rank.
struct rank_part {
  std::uint32_t rank = 0;
  overlap_summary overlap;
  nanoseconds elapsed{};   ///< From the first block asked for to the end of the last.
  nanoseconds link_busy{}; ///< Some copy ran, in that time.
  std::uint64_t steps = 0; ///< Denoising steps that ended.

  /// Returns what part of the time some copy ran, 0 to 1.
  [[nodiscard]] double link_use() const noexcept;

  /// Returns how much longer compute and waits took than the lower bound: 0 is perfect.
  [[nodiscard]] double distance_to_bound() const noexcept;
};

struct trace_report {
  std::vector<rank_part> ranks;
  std::vector<block_part> blocks;
  std::vector<late_block> late; ///< In order of time.
};

/// Blocks that are waited for less than this are not late: queues have gaps.
inline constexpr nanoseconds least_wait{1000};

/// Says how well transfers hid behind compute and why the rest did not. A block is late if it was
/// waited for longer than `least_wait` and a hundredth of what it computed. What was run to warm up
/// does not count. Where the trace has all ranks of a gather, it counts from when the last of them
/// came.
[[nodiscard]] trace_report analyse(const trace& run);

} // namespace ferry
