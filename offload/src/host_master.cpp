// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_master.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>

namespace ferry {

namespace {

// What is registered may end between two storages that lie side by side.
bool continues(const host_master::segment& before, const host_master::segment& next) noexcept {
  return next.kind == before.kind && next.kind != memory_kind::registered &&
         next.offset == before.offset + before.source.size() &&
         next.source.data() == before.source.data() + before.source.size();
}

} // namespace

host_master host_master::kept(const packed_layout& layout, std::span<const const_bytes> originals,
                              std::span<const memory_kind> kinds) {
  FERRY_ASSERT(originals.size() == layout.storages.size());
  FERRY_ASSERT(kinds.size() == layout.storages.size());
  host_master master(layout.bytes);
  for (std::size_t i = 0; i < originals.size(); ++i) {
    FERRY_ASSERT(originals[i].size() == layout.storages[i].bytes);
    const segment next{originals[i], layout.storages[i].offset, kinds[i]};
    auto& done = master.segments_;
    if (!done.empty() && continues(done.back(), next))
      done.back().source = {done.back().source.data(),
                            done.back().source.size() + next.source.size()};
    else
      done.push_back(next);
  }
  return master;
}

host_master host_master::pinned(device& owner, const packed_layout& layout,
                                std::span<const const_bytes> originals) {
  FERRY_ASSERT(originals.size() == layout.storages.size());
  host_master master(layout.bytes);
  if (layout.bytes == 0)
    return master;
  master.region_ = memory_block(owner, memory_kind::pinned, layout.bytes);
  const auto region = master.region_.bytes().first(layout.bytes);
  owner.host_write(region, {.what = "fill master"});
  std::size_t filled = 0;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const auto& storage = layout.storages[i];
    FERRY_ASSERT(originals[i].size() == storage.bytes);
    std::ranges::fill(region.subspan(filled, storage.offset - filled), std::byte{0});
    std::ranges::copy(originals[i], region.subspan(storage.offset).begin());
    filled = storage.offset + storage.bytes;
  }
  std::ranges::fill(region.subspan(filled), std::byte{0});
  master.segments_.push_back({region, 0, memory_kind::pinned});
  return master;
}

std::size_t host_master::segment_of(std::size_t offset) const noexcept {
  const auto after = std::ranges::upper_bound(segments_, offset, {}, &segment::offset);
  FERRY_ASSERT(after != segments_.begin());
  return static_cast<std::size_t>(after - segments_.begin()) - 1;
}

const_bytes host_master::at(std::size_t offset, std::size_t bytes) const noexcept {
  const auto& in = segments_[segment_of(offset)];
  FERRY_ASSERT(offset - in.offset + bytes <= in.source.size());
  return in.source.subspan(offset - in.offset, bytes);
}

mutable_bytes host_master::writable(std::size_t offset, std::size_t bytes) noexcept {
  FERRY_ASSERT(offset + bytes <= region_.bytes().size());
  return region_.bytes().subspan(offset, bytes);
}

void host_master::point_at(std::size_t offset, const_bytes source) noexcept {
  FERRY_ASSERT(region_.bytes().empty() && segments_.capacity() >= segments_.size() + 2);
  const auto index = segment_of(offset);
  const auto whole = segments_[index];
  const auto before = offset - whole.offset;
  const auto after = before + source.size();
  FERRY_ASSERT(after <= whole.source.size());
  auto place = segments_.begin() + static_cast<std::ptrdiff_t>(index);
  *place = {source, offset, memory_kind::pageable};
  if (after != whole.source.size())
    place = segments_.insert(place + 1,
                             {whole.source.subspan(after), whole.offset + after, whole.kind}) -
            1;
  if (before != 0)
    segments_.insert(place, {whole.source.first(before), whole.offset, whole.kind});
}

} // namespace ferry
