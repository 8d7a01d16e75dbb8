// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ferry {

/// Returns whether memory of that kind goes through pinned memory on its way to a device that wants
/// pinned sources.
[[nodiscard]] constexpr bool needs_staging(memory_kind kind) noexcept {
  return kind == memory_kind::mapped || kind == memory_kind::pageable;
}

/// Returns whether any of a master's copies would come from such memory.
[[nodiscard]] bool needs_staging(std::span<const host_master::segment> from) noexcept;

/// A part of a unit's packed bytes that goes through one staging buffer.
struct staged_piece {
  std::size_t offset = 0;
  std::size_t bytes = 0;

  friend bool operator==(const staged_piece&, const staged_piece&) = default;
};

/// Two pinned buffers through which weights that lie elsewhere on the host go to the device, piece
/// by piece: one is packed while the other is copied.
///
/// Pieces take turns: the piece of turn n uses buffer n % 2, and is packed once the copy of the
/// piece before it in that buffer is enqueued. Packing and copying may be done by two threads,
/// which tell each other of every piece. Outlives the copies.
class staging_buffers {
public:
  static constexpr std::size_t count = 2;

  /// Returns the size of one buffer for units of at most `largest_unit` bytes, when pieces shall be
  /// no longer than `piece`.
  [[nodiscard]] static std::size_t size_for(std::size_t largest_unit, std::size_t piece) noexcept;

  /// Takes `count * bytes` of pinned memory. @pre `bytes` is a multiple of `memory_alignment`
  /// @throws device_error
  staging_buffers(device& owner, std::size_t bytes);

  /// Returns the pinned memory taken.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }

  /// Returns how many pieces a unit is cut into; they are even. And which is the `index`th.
  [[nodiscard]] std::size_t pieces_of(std::size_t unit_bytes) const noexcept;
  [[nodiscard]] staged_piece piece(std::size_t unit_bytes, std::size_t index) const noexcept;

  /// Blocks the calling thread until the buffer's last copy has run, then packs `which` of what
  /// `from` describes, converted where that is to be; padding is zero.
  void pack(std::uint64_t turn, std::span<const host_master::segment> from, staged_piece which);

  /// Enqueues the copy of a packed piece. `unit` is where its unit comes to lie on the device.
  /// @throws device_error, when the copy may be enqueued all the same. Then the next piece for the
  /// buffer waits for all of `copies`, and is packed by the thread that uses that.
  void copy(std::uint64_t turn, staged_piece which, mutable_bytes unit, stream& copies,
            operation_tag tag);

private:
  struct buffer {
    mutable_bytes bytes;
    event copied;                 ///< After the last copy from it,
    stream* unrecorded = nullptr; ///< unless that could not be recorded on its stream.
  };

  [[nodiscard]] buffer& at(std::uint64_t turn) noexcept { return buffers_[turn % count]; }

  device* owner_;
  memory_block memory_;
  std::array<buffer, count> buffers_;
};

} // namespace ferry
