// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_shard.hpp"

#include <algorithm>
#include <array>

namespace ferry {
namespace {

using segment = host_master::segment;

constexpr std::array<std::byte, 4096> zeros{};

/// Calls `visit(source, shard offset, kind)` for the bytes of `part` that the master has.
template <class Visitor>
void visit_part(const host_master& block, const gather_chunk& chunk, byte_range part,
                const Visitor& visit) {
  const auto end = part.offset + part.bytes;
  for (const auto& each : block.segments()) {
    const auto from = std::max(each.offset, part.offset);
    const auto until = std::min(each.offset + each.source.size(), end);
    if (from < until)
      visit(each.source.subspan(from - each.offset, until - from),
            chunk.shard_offset + (from - part.offset), each.kind);
  }
}

} // namespace

host_shard host_shard::kept(const host_master& block, const gather_manifest& manifest,
                            std::size_t rank) {
  host_shard made;
  for (const auto& chunk : manifest.chunks) {
    const auto part = manifest.part_of(chunk, rank);
    visit_part(block, chunk, part, [&](const_bytes source, std::size_t at, memory_kind kind) {
      made.segments_.push_back({source, at, kind});
    });
    for (auto at = part.bytes; at < chunk.local;) {
      const auto bytes = std::min(chunk.local - at, zeros.size());
      made.segments_.push_back(
          {const_bytes{zeros}.first(bytes), chunk.shard_offset + at, memory_kind::pageable});
      at += bytes;
    }
  }
  return made;
}

host_shard host_shard::pinned(device& owner, const host_master& block,
                              const gather_manifest& manifest, std::size_t rank) {
  host_shard made;
  if (manifest.shard_bytes() == 0)
    return made;
  made.region_ = memory_block(owner, memory_kind::pinned, manifest.shard_bytes());
  const auto region = made.region_.bytes().first(manifest.shard_bytes());
  owner.host_write(region, {.what = "fill shard"});
  std::ranges::fill(region, std::byte{0});
  for (const auto& chunk : manifest.chunks) {
    visit_part(block, chunk, manifest.part_of(chunk, rank),
               [&](const_bytes source, std::size_t at, memory_kind) {
                 std::ranges::copy(source, region.subspan(at).begin());
               });
    made.segments_.push_back(
        {region.subspan(chunk.shard_offset, chunk.local), chunk.shard_offset, memory_kind::pinned});
  }
  return made;
}

std::span<const segment> host_shard::segments(const gather_chunk& chunk) const {
  const auto first = std::ranges::lower_bound(segments_, chunk.shard_offset, {}, &segment::offset);
  const auto last =
      std::ranges::lower_bound(segments_, chunk.shard_offset + chunk.local, {}, &segment::offset);
  return {first, last};
}

} // namespace ferry
