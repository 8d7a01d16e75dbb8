// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/gather_manifest.hpp>
#include <ferry/offload/host_master.hpp>
#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ferry {

/// What one rank holds of a block that ranks gather: its parts of all chunks, one after another.
/// Never changes, so that any thread may read it. Outlives every fetch that reads it.
class host_shard {
public:
  /// Takes the parts where the block's master has them; the bytes are not owned. What lies between
  /// the storages of the block is of no value and not sent as zero.
  /// @pre `block` is the master of the block that `manifest` describes
  [[nodiscard]] static host_shard kept(const host_master& block, const gather_manifest& manifest,
                                       std::size_t rank);

  /// Makes a copy of the parts in one piece of pinned memory, padding zero. The master may go.
  /// @throws device_error `out_of_host_memory`
  [[nodiscard]] static host_shard pinned(device& owner, const host_master& block,
                                         const gather_manifest& manifest, std::size_t rank);

  /// Returns the copies that put the shard on the device, in order of offset in the shard.
  [[nodiscard]] std::span<const host_master::segment> segments() const noexcept {
    return segments_;
  }

  /// Returns the copies for one chunk. Their offsets are those in the shard.
  [[nodiscard]] std::span<const host_master::segment> segments(const gather_chunk& chunk) const;

  /// Returns all bytes of a pinned shard; nothing of a kept one.
  [[nodiscard]] const_bytes whole() const noexcept { return region_.bytes(); }

private:
  host_shard() = default;

  memory_block region_; ///< Empty for a kept shard.
  std::vector<host_master::segment> segments_;
};

} // namespace ferry
