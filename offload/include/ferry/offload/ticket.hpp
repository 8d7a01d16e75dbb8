// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <string_view>

namespace ferry {

/// Where one use of one slot stands.
enum class ticket_state : std::uint8_t {
  reusable,  ///< Nobody holds the slot.
  submitted, ///< A fetch into the slot is ordered.
  ready,     ///< Its copies are enqueued and its ready event is recorded.
  in_use,    ///< The model reads the slot.
};

[[nodiscard]] std::string_view to_string(ticket_state state) noexcept;

/// The use of one slot by one block, and the uses after it: a state machine.
///
/// Each use has a generation, larger than all before. Whoever acts for an older generation gets
/// `stale_handle`; an act that the state does not allow is a `slot_conflict`. A failed act changes
/// nothing. A plain value without synchronisation.
class slot_ticket {
public:
  [[nodiscard]] ticket_state state() const noexcept { return state_; }

  /// Returns the block of the current use, or of the last one while reusable.
  [[nodiscard]] block_id block() const noexcept { return block_; }

  /// Returns the generation of the current or last use; 0 before the first.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

  /// reusable -> submitted. Beginning the very same use again changes nothing.
  [[nodiscard]] result<void> begin(block_id block, std::uint64_t generation);

  /// submitted -> ready.
  [[nodiscard]] result<void> mark_ready(std::uint64_t generation);

  /// ready -> in use. Marking twice is fine.
  [[nodiscard]] result<void> mark_in_use(std::uint64_t generation);

  /// ready or in use -> reusable.
  [[nodiscard]] result<void> release(std::uint64_t generation);

  /// submitted or ready -> reusable: the use will not happen.
  [[nodiscard]] result<void> revoke(std::uint64_t generation);

private:
  [[nodiscard]] result<void> advance(std::uint64_t generation, std::string_view act, bool allowed,
                                     ticket_state to);
  [[nodiscard]] failure conflict(std::string_view act) const;

  std::uint64_t generation_ = 0;
  block_id block_{};
  ticket_state state_ = ticket_state::reusable;
};

} // namespace ferry
