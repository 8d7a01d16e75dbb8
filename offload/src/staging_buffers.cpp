// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/staging_buffers.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "ferry/offload/wait_edges.hpp"

#include <algorithm>

namespace ferry {

bool needs_staging(std::span<const host_master::segment> from) noexcept {
  return std::ranges::any_of(from, [](const auto& each) { return needs_staging(each.kind); });
}

std::size_t staging_buffers::size_for(std::size_t largest_unit, std::size_t piece) noexcept {
  return align_up(std::min(largest_unit, piece));
}

staging_buffers::staging_buffers(device& owner, std::size_t bytes)
    : owner_(&owner), memory_(owner, memory_kind::pinned, count * bytes),
      buffers_{buffer{memory_.bytes().first(bytes), event{owner}},
               buffer{memory_.bytes().subspan(bytes, bytes), event{owner}}} {}

std::size_t staging_buffers::pieces_of(std::size_t unit_bytes) const noexcept {
  const auto most = buffers_.front().bytes.size();
  return (unit_bytes + most - 1) / most;
}

staged_piece staging_buffers::piece(std::size_t unit_bytes, std::size_t index) const noexcept {
  const auto pieces = pieces_of(unit_bytes);
  FERRY_ASSERT(index < pieces);
  const auto even = align_up((unit_bytes + pieces - 1) / pieces);
  return {index * even, std::min(even, unit_bytes - index * even)};
}

void staging_buffers::pack(std::uint64_t turn, std::span<const host_master::segment> from,
                           staged_piece which) {
  auto& into = at(turn);
  if (into.unrecorded != nullptr)
    into.unrecorded->synchronize(pack_waits_copy);
  else
    into.copied.synchronize(pack_waits_copy);
  into.unrecorded = nullptr;
  const auto target = into.bytes.first(which.bytes);
  owner_->host_write(target, {.what = "pack"});
  const auto end = which.offset + which.bytes;
  std::size_t packed = 0;
  mapped_reader reader;
  for (const auto& each : from) {
    const auto first = std::max(each.offset, which.offset);
    const auto last = std::min(each.offset + each.bytes(), end);
    if (first >= last)
      continue;
    const auto source = each.source.subspan(unconverted_bytes(each.convert, first - each.offset),
                                            unconverted_bytes(each.convert, last - first));
    owner_->host_read(source, {.what = "pack"});
    const auto at = first - which.offset;
    std::ranges::fill(target.subspan(packed, at - packed), std::byte{0});
    reader.read(source, target.subspan(at, last - first), each.convert);
    packed = last - which.offset;
  }
  std::ranges::fill(target.subspan(packed), std::byte{0});
}

void staging_buffers::copy(std::uint64_t turn, staged_piece which, mutable_bytes unit,
                           stream& copies, operation_tag tag) {
  auto& out_of = at(turn);
  copies.copy({.target = unit.subspan(which.offset, which.bytes),
               .source = out_of.bytes.first(which.bytes),
               .to = memory_kind::device,
               .from = memory_kind::pinned,
               .tag = tag});
  out_of.unrecorded = &copies;
  copies.record(out_of.copied);
  out_of.unrecorded = nullptr;
}

} // namespace ferry
