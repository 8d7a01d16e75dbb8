// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// What one piece of a block takes on its way.
struct piece_cost {
  nanoseconds copy{};                ///< From this rank's host memory, over the link.
  std::optional<nanoseconds> gather; ///< From all ranks. Nothing: the rank copies it alone.

  friend bool operator==(const piece_cost&, const piece_cost&) = default;
};

/// What one block takes.
struct block_cost {
  nanoseconds compute{};          ///< Of one pass through it.
  std::vector<piece_cost> pieces; ///< In order. None: the block is resident.

  [[nodiscard]] bool resident() const noexcept { return pieces.empty(); }

  friend bool operator==(const block_cost&, const block_cost&) = default;
};

/// How blocks are streamed.
struct schedule_options {
  std::size_t slots = 2;
  std::size_t passes = 1; ///< Passes that use a block while it is on the device.
  gather_pipelining pipelining = gather_pipelining::overlapped;
};

/// When what happened to one use of a block, from the start of the schedule.
struct block_times {
  nanoseconds fetched{}; ///< Its first copy began. Of a resident block: 0.
  nanoseconds ready{};   ///< It was on the device.
  nanoseconds begun{};
  nanoseconds done{};
  nanoseconds waited{}; ///< Compute stood still for it.

  friend bool operator==(const block_times&, const block_times&) = default;
};

/// Computes when blocks are fetched and run, block use by block use, from an empty device on. A
/// fetch starts as soon as the link and a slot are free, a gather as soon as its piece has landed,
/// the gather before has ended and the slot is free, and a block as soon as it is there and the one
/// before has run:
///
///     start(k) = max(end of fetch k-1, done(k - slots));  ready(k) = start(k) + copy(k)
///     begin(k) = max(done(k - 1), ready(k));              done(k) = begin(k) + compute(k)
///
/// Equal to what the simulated device does with the real runtime, except for what its host threads
/// take: one that enqueues (`launch`) and tells others (`hop`) is ahead of the device unless blocks
/// take less than that. Not thread-safe.
class schedule_model {
public:
  /// @pre slots and passes are at least 1
  explicit schedule_model(const schedule_options& how);

  /// The link first brings what is resident for a request, which takes `copy`. @pre nothing ran yet
  void bring_residents(nanoseconds copy) noexcept;

  /// Adds the next use.
  block_times run(const block_cost& block);

  /// Returns when everything so far has run.
  [[nodiscard]] nanoseconds end() const noexcept { return computed_; }

private:
  [[nodiscard]] nanoseconds fetch(const block_cost& block, nanoseconds slot_free,
                                  nanoseconds& first);

  schedule_options how_;
  std::vector<nanoseconds> slots_; ///< When each was last free.
  std::array<nanoseconds, transfer_plan::inputs> inputs_{};
  std::uint64_t fetches_ = 0;
  std::uint64_t gathers_ = 0;
  bool gathered_last_ = false;
  nanoseconds residents_{};
  nanoseconds link_{};
  nanoseconds gathered_{};
  nanoseconds computed_{};
};

/// Sums over one pass: what no schedule of these blocks beats, and what the worst one takes.
struct schedule_bounds {
  nanoseconds compute{}; ///< Of all passes that use a fetch.
  nanoseconds copies{};
  nanoseconds gathers{};
  gather_pipelining pipelining = gather_pipelining::overlapped;

  /// Returns the longest of the three; of two where copies and gathers take turns.
  [[nodiscard]] nanoseconds least() const noexcept;

  /// Returns what one thing after the other takes.
  [[nodiscard]] nanoseconds serial() const noexcept { return compute + copies + gathers; }
};

[[nodiscard]] schedule_bounds bounds_of(std::span<const block_cost> blocks,
                                        const schedule_options& how);

/// Returns what the last of `passes` runs through `blocks` takes, the first from an empty device.
/// @pre `passes` >= 2
[[nodiscard]] nanoseconds last_pass(std::span<const block_cost> blocks, const schedule_options& how,
                                    std::size_t passes);

/// Returns what a run through `blocks` takes in the long run.
[[nodiscard]] nanoseconds steady_pass(std::span<const block_cost> blocks,
                                      const schedule_options& how);

} // namespace ferry
