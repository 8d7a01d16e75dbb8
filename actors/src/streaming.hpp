// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/stream.hpp>

#include "ticket_board.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// What the actors and the model thread of one enabled backend share. Made by the offloader, then
/// constant except for the ticket board and the device objects, each of which has one user at a
/// time: a slot's events follow its ticket, the compute stream belongs to the model thread while it
/// is inside the board, and to the offloader otherwise.
class streaming {
public:
  using sources = std::span<const host_master::segment>;

  struct block {
    std::string path;
    std::size_t bytes = 0;
    sources from; ///< Valid until `close` or an update.
  };

  struct resident {
    mutable_bytes target;
    sources from;
  };

  struct slot {
    slot(device& owner, mutable_bytes region) : bytes(region), ready(owner), last_use(owner) {}

    mutable_bytes bytes;
    event ready;    ///< After the copies into the slot.
    event last_use; ///< After everything that read it.
  };

  /// What there is only while the backend is enabled.
  struct lanes {
    lanes(device& owner, std::span<const mutable_bytes> slot_bytes);

    std::deque<slot> slots;
    stream compute;
    event residents_ready; ///< After the copies of all residents.
    event drained;         ///< After everything on the copy stream when it was drained.
  };

  streaming(device& owner, const transfer_plan& plan, std::size_t slots);

  [[nodiscard]] device& owner() const noexcept { return *owner_; }
  [[nodiscard]] std::span<const planned_ring> rings() const noexcept { return rings_; }
  [[nodiscard]] std::size_t slot_count() const noexcept { return slot_count_; }
  [[nodiscard]] std::size_t block_count() const noexcept { return blocks_.size(); }
  [[nodiscard]] const block& at(block_id id) const noexcept;
  [[nodiscard]] std::span<const resident> residents() const noexcept { return residents_; }
  [[nodiscard]] ticket_board& board() noexcept { return board_; }

  /// @pre open
  [[nodiscard]] slot& at(slot_id id) noexcept;
  [[nodiscard]] stream& compute() noexcept { return lanes_->compute; }
  [[nodiscard]] event& residents_ready() noexcept { return lanes_->residents_ready; }
  [[nodiscard]] event& drained() noexcept { return lanes_->drained; }

  void add_sources(block_id id, sources from) noexcept;
  void add_resident(mutable_bytes target, sources from);
  void point_resident(std::size_t index, sources from) noexcept { residents_[index].from = from; }

  /// Makes the events and the compute stream.
  void open(std::span<const mutable_bytes> slot_bytes);
  [[nodiscard]] bool is_open() const noexcept { return lanes_.has_value(); }

  /// Destroys them again. @pre their work has run, and the board has failed and was left
  void close() noexcept;

private:
  device* owner_;
  std::vector<planned_ring> rings_;
  std::vector<block> blocks_;
  std::vector<resident> residents_;
  std::size_t slot_count_;
  ticket_board board_;
  std::optional<lanes> lanes_;
};

} // namespace ferry
