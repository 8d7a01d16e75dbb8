// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/packing.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ferry {

/// The authoritative host copy of one unit's weights, in packed form. Changes only when weights are
/// replaced, while nothing reads it; otherwise any thread may. Nothing is ever copied back into it.
///
/// Copies from it are asynchronous: it outlives every fetch that reads it.
class host_master {
public:
  /// One contiguous copy of a fetch.
  struct segment {
    const_bytes source;
    std::size_t offset = 0; ///< In the packed bytes.
    memory_kind kind = memory_kind::pageable;
    conversion convert = conversion::none;

    /// Returns how many packed bytes it makes.
    [[nodiscard]] std::size_t bytes() const noexcept;
    /// Returns the operation that puts it into `unit`, which has the packed bytes.
    [[nodiscard]] copy_operation copy_to(mutable_bytes unit, operation_tag tag) const noexcept;
  };

  /// What becomes of each original, in the order of the storages; none is given where nothing does.
  using conversions = std::span<const conversion>;

  /// Makes a master of the originals themselves, which stay where they are. The bytes are not
  /// owned. `originals` and their `kinds` go with `layout.storages`, in order.
  [[nodiscard]] static host_master kept(const packed_layout& layout,
                                        std::span<const const_bytes> originals,
                                        std::span<const memory_kind> kinds,
                                        conversions changes = {});

  /// Makes a copy in one piece of pinned memory; padding is zero. Where nothing is converted it is
  /// the packed form. The originals may go.
  /// @throws device_error `out_of_host_memory`
  [[nodiscard]] static host_master pinned(device& owner, const packed_layout& layout,
                                          std::span<const const_bytes> originals,
                                          conversions changes = {});

  /// Returns what a pinned copy takes.
  [[nodiscard]] static std::size_t pinned_size(const packed_layout& layout, conversions changes);

  /// Returns the copies that put the unit into a slot, in order of offset; neighbours joined,
  /// unless they are registered.
  [[nodiscard]] std::span<const segment> segments() const noexcept { return segments_; }

  /// Returns all bytes of a pinned master; nothing of a kept one.
  [[nodiscard]] const_bytes whole() const noexcept { return region_.bytes(); }

  /// Returns whether any byte is converted on its way.
  [[nodiscard]] bool converts() const noexcept;

  /// Returns whether it holds all that the originals did, packed.
  [[nodiscard]] bool replaces_originals() const noexcept { return !whole().empty() && !converts(); }

  /// Returns what `bytes` packed bytes from `offset` on are made of. @pre they are of one storage
  [[nodiscard]] const_bytes at(std::size_t offset, std::size_t bytes) const noexcept;

  /// The same of a pinned master, for writing. @pre nothing reads them, nothing is converted
  [[nodiscard]] mutable_bytes writable(std::size_t offset, std::size_t bytes) noexcept;

  /// Makes room for `count` calls of `point_at`. Moves what `segments()` returned.
  void expect_moves(std::size_t count) { segments_.reserve(segments_.size() + 2 * count); }

  /// Lets a kept master take the packed bytes from `offset` on from `source`, which is ordinary
  /// memory, instead. @pre they are of one storage, and the call was expected
  void point_at(std::size_t offset, const_bytes source) noexcept;

  /// Returns the size of the packed form, padding included.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  explicit host_master(std::size_t bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t segment_of(std::size_t offset) const noexcept;

  std::size_t bytes_;
  memory_block region_; ///< Empty for a kept master.
  std::vector<segment> segments_;
};

} // namespace ferry
