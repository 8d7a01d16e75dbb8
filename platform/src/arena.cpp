// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/arena.hpp"

#include "ferry/platform/error.hpp"

#include <algorithm>
#include <string>

namespace ferry {

arena::arena(device& owner, std::size_t bytes) : block_(owner, memory_kind::device, bytes) {}

mutable_bytes arena::carve(std::size_t bytes) {
  if (bytes == 0)
    return {};

  std::size_t gap_begin = 0;
  std::size_t largest = 0;
  auto next = regions_.begin();
  for (;; ++next) {
    const auto gap = (next == regions_.end() ? size() : next->first) - gap_begin;
    largest = std::max(largest, gap);
    if (gap >= bytes) {
      const auto length = std::min(align_up(bytes), gap);
      regions_.emplace_hint(next, gap_begin, length);
      used_ += length;
      peak_ = std::max(peak_, used_);
      return block_.bytes().subspan(gap_begin, bytes);
    }
    if (next == regions_.end())
      break;
    gap_begin = next->first + next->second;
  }
  throw device_error(errc::out_of_device_memory, "carve from arena",
                     "asked for " + std::to_string(bytes) + " bytes; " +
                         std::to_string(size() - used_) + " of " + std::to_string(size()) +
                         " are free, the largest gap is " + std::to_string(largest));
}

void arena::give_back(mutable_bytes region) noexcept {
  if (region.empty())
    return;
  const auto offset = region.data() - block_.bytes().data();
  const auto found = regions_.find(static_cast<std::size_t>(offset));
  FERRY_ASSERT(found != regions_.end());
  used_ -= found->second;
  regions_.erase(found);
}

} // namespace ferry
