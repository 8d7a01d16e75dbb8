// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_master.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/mapped_file.hpp>

#include <algorithm>

namespace ferry {

namespace {

// What is registered may end between two storages that lie side by side.
bool continues(const host_master::segment& before, const host_master::segment& next) noexcept {
  return next.kind == before.kind && next.kind != memory_kind::registered &&
         next.convert == before.convert && next.offset == before.offset + before.bytes() &&
         next.source.data() == before.source.data() + before.source.size();
}

conversion change_of(host_master::conversions changes, std::size_t storage) noexcept {
  return changes.empty() ? conversion::none : changes[storage];
}

bool any(host_master::conversions changes) noexcept {
  return std::ranges::any_of(changes, [](conversion how) { return how != conversion::none; });
}

} // namespace

std::size_t host_master::segment::bytes() const noexcept {
  return converted_bytes(convert, source.size());
}

copy_operation host_master::segment::copy_to(mutable_bytes unit, operation_tag tag) const noexcept {
  return {.target = unit.subspan(offset, bytes()),
          .source = source,
          .to = memory_kind::device,
          .from = kind,
          .tag = tag,
          .convert = convert};
}

host_master host_master::kept(const packed_layout& layout, std::span<const const_bytes> originals,
                              std::span<const memory_kind> kinds, conversions changes) {
  FERRY_ASSERT(originals.size() == layout.storages.size());
  FERRY_ASSERT(kinds.size() == layout.storages.size());
  FERRY_ASSERT(changes.empty() || changes.size() == layout.storages.size());
  host_master master(layout.bytes);
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const segment next{originals[i], layout.storages[i].offset, kinds[i], change_of(changes, i)};
    FERRY_ASSERT(next.bytes() == layout.storages[i].bytes);
    auto& done = master.segments_;
    if (!done.empty() && continues(done.back(), next))
      done.back().source = {done.back().source.data(),
                            done.back().source.size() + next.source.size()};
    else
      done.push_back(next);
  }
  return master;
}

std::size_t host_master::pinned_size(const packed_layout& layout, conversions changes) {
  if (!any(changes))
    return layout.bytes;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < layout.storages.size(); ++i)
    bytes += align_up(unconverted_bytes(changes[i], layout.storages[i].bytes));
  return bytes;
}

host_master host_master::pinned(device& owner, const packed_layout& layout,
                                std::span<const const_bytes> originals, conversions changes) {
  FERRY_ASSERT(originals.size() == layout.storages.size());
  host_master master(layout.bytes);
  if (layout.bytes == 0)
    return master;
  const auto size = pinned_size(layout, changes);
  master.region_ = memory_block(owner, memory_kind::pinned, size);
  const auto region = master.region_.bytes().first(size);
  owner.host_write(region, {.what = "fill master"});
  const auto packed = !any(changes);
  std::size_t filled = 0;
  mapped_reader reader;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const auto& storage = layout.storages[i];
    const auto at = packed ? storage.offset : align_up(filled);
    const auto place = region.subspan(at, originals[i].size());
    std::ranges::fill(region.subspan(filled, at - filled), std::byte{0});
    reader.read(originals[i], place, conversion::none);
    filled = at + place.size();
    if (!packed)
      master.segments_.push_back(
          {place, storage.offset, memory_kind::pinned, change_of(changes, i)});
    FERRY_ASSERT(converted_bytes(change_of(changes, i), place.size()) == storage.bytes);
  }
  std::ranges::fill(region.subspan(filled), std::byte{0});
  if (packed)
    master.segments_.push_back({region, 0, memory_kind::pinned});
  return master;
}

bool host_master::converts() const noexcept {
  return std::ranges::any_of(segments_,
                             [](const segment& each) { return each.convert != conversion::none; });
}

std::size_t host_master::segment_of(std::size_t offset) const noexcept {
  const auto after = std::ranges::upper_bound(segments_, offset, {}, &segment::offset);
  FERRY_ASSERT(after != segments_.begin());
  return static_cast<std::size_t>(after - segments_.begin()) - 1;
}

const_bytes host_master::at(std::size_t offset, std::size_t bytes) const noexcept {
  const auto& in = segments_[segment_of(offset)];
  FERRY_ASSERT(offset - in.offset + bytes <= in.bytes());
  return in.source.subspan(unconverted_bytes(in.convert, offset - in.offset),
                           unconverted_bytes(in.convert, bytes));
}

mutable_bytes host_master::writable(std::size_t offset, std::size_t bytes) noexcept {
  FERRY_ASSERT(offset + bytes <= region_.bytes().size() && !converts());
  return region_.bytes().subspan(offset, bytes);
}

void host_master::point_at(std::size_t offset, const_bytes source) noexcept {
  FERRY_ASSERT(region_.bytes().empty() && segments_.capacity() >= segments_.size() + 2);
  const auto index = segment_of(offset);
  const auto whole = segments_[index];
  FERRY_ASSERT(whole.convert == conversion::none);
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
