// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/packing.hpp>
#include <ferry/offload/weight_places.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// One collective: every rank sends `local` bytes, and all receive what the ranks sent, in order.
struct gather_chunk {
  std::size_t full_offset = 0;  ///< Of what is gathered, in the packed block and in the slot.
  std::size_t shard_offset = 0; ///< Of what a rank sends, in its shard.
  std::size_t valid = 0;        ///< Bytes of the block among what is gathered; the rest is zero.
  std::size_t local = 0;

  friend bool operator==(const gather_chunk&, const gather_chunk&) = default;
};

/// Bytes [offset, offset + bytes) of a packed block.
struct byte_range {
  std::size_t offset = 0;
  std::size_t bytes = 0;

  friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// How the packed bytes of one block are split over ranks, and in which pieces they are gathered.
/// The same on every rank: `digest` is what ranks compare before the first collective.
///
/// A shard is a range of bytes of every chunk, whatever the element types: shards are equally long,
/// begin at multiples of `memory_alignment`, and the last ones are padded.
struct gather_manifest {
  std::string path;      ///< Of the block.
  std::size_t bytes = 0; ///< Of the packed block.
  std::size_t ranks = 1;
  std::size_t chunk_bytes = 0; ///< Of every chunk but the last, padding included.
  std::vector<gather_chunk> chunks;

  /// Returns what one rank holds.
  [[nodiscard]] std::size_t shard_bytes() const noexcept;

  /// Returns what a slot must hold: the block and its padding.
  [[nodiscard]] std::size_t gathered_bytes() const noexcept;

  /// Returns the part of the block that `rank` sends with `chunk`; the padding is not in it.
  [[nodiscard]] byte_range part_of(const gather_chunk& chunk, std::size_t rank) const noexcept;

  friend bool operator==(const gather_manifest&, const gather_manifest&) = default;
};

/// Plans the gathers of a block: in as few chunks of at most `chunk_bytes` as there can be, as even
/// as they can be, or in one if there is no limit. Fails with `invalid_config` if a chunk cannot
/// hold the least that ranks can share.
[[nodiscard]] result<gather_manifest> plan_gather(const std::string& path, std::size_t bytes,
                                                  std::size_t ranks,
                                                  std::optional<std::size_t> chunk_bytes);

/// Returns the SHA-256, in hexadecimal, of what all ranks must agree on about the form of a block:
/// its manifest, which storages lie where in it, and the name, type, shape and place of each of its
/// tensors. Says nothing of the rank, nor of addresses.
[[nodiscard]] std::string digest(const gather_manifest& manifest, const packed_layout& layout,
                                 std::span<const weight_place> tensors);

} // namespace ferry
