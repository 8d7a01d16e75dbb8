// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/offload/transfer_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// Learns the order in which blocks really run, and predicts the next uses.
///
/// Keeps a bounded history of uses and request boundaries, and a place in it that has matched
/// everything since; what followed there is the prediction. A use that was not predicted moves the
/// place to where the longest sequence ends that also ends now, the latest of several. So a call
/// path that was seen once, from the start of a request or from any divergence, is followed without
/// error, however many paths alternate.
///
/// Paths that switch at irregular times mislead a long memory. After a wrong prediction whatever
/// followed the last block most recently is believed instead, until the two disagree and the place
/// is right. A block never seen to be followed by anything is followed by the next one declared in
/// its ring, wrapping.
///
/// The end of a request is never predicted: the next request may well be longer.
///
/// Not thread-safe. Allocates in the constructor and when more is announced than ever before.
class execution_order {
public:
  /// @pre the blocks of all rings are numbered from zero without gaps
  explicit execution_order(std::span<const planned_ring> rings);

  [[nodiscard]] std::size_t block_count() const noexcept { return declared_next_.size(); }

  /// Fills `next` with the uses expected from here on, the nearest first. Returns how many: all of
  /// `next` unless there are no blocks.
  [[nodiscard]] std::size_t predict(std::span<block_id> next) const noexcept;

  void begin_request() noexcept;

  /// Returns the next use that was announced, if one is left.
  [[nodiscard]] std::optional<block_id> next_announced() const noexcept;

  /// Also forgets what was announced.
  void end_request() noexcept;

  /// Adds a use to the history.
  void record(block_id used) noexcept;

  /// Declares that the next uses, after those announced before, are exactly `blocks`. Predictions
  /// follow it; learning takes over behind it. A use that skips announced blocks drops them; one
  /// that is not in what is announced drops all of it.
  void announce(std::span<const block_id> blocks);

private:
  using symbol = std::uint32_t;
  using position = std::uint64_t;

  [[nodiscard]] symbol request_begin() const noexcept { return symbol(block_count()); }
  [[nodiscard]] symbol request_end() const noexcept { return symbol(block_count() + 1); }
  [[nodiscard]] bool is_block(symbol what) const noexcept { return what < block_count(); }
  [[nodiscard]] symbol at(position where) const noexcept { return history_[where & mask_].what; }
  [[nodiscard]] position oldest() const noexcept { return size_ > mask_ ? size_ - mask_ : 0; }

  void append(symbol what) noexcept;
  void judge(bool followed, symbol what) noexcept;
  void consume_announced(block_id used) noexcept;
  [[nodiscard]] position find_match(std::span<const symbol> recent_first) const noexcept;
  [[nodiscard]] position find_latest(symbol what) const noexcept;

  struct entry {
    symbol what;
    std::uint32_t back; ///< Distance to the entry before with the same symbol, 0 if none.
  };

  std::vector<entry> history_; ///< A circular buffer; `mask_` is its size - 1.
  position mask_ = 0;
  position size_ = 0;          ///< Entries ever added; the last one is at `size_ - 1`.
  position place_;             ///< Where the prediction is read: matches the last entry.
  bool prefer_latest_ = false; ///< What followed the last block most recently is the better guess.
  std::vector<position> last_; ///< By symbol: one past its last entry, 0 if none.
  std::vector<symbol> declared_next_;
  symbol first_ = 0;
  std::vector<block_id> announced_;
  std::size_t announced_done_ = 0;
};

} // namespace ferry
