// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/staging_memory.hpp"

#include <ferry/platform/error.hpp>

#include <string>

namespace ferry {

mutable_bytes reserved_memory::take(std::size_t bytes) {
  if (taken_ || bytes > range_.size())
    throw device_error(errc::out_of_device_memory, "take reserved memory",
                       "asked for " + std::to_string(bytes) + " bytes; " +
                           std::to_string(range_.size()) + " are reserved" +
                           (taken_ ? " and in use" : ""));
  taken_ = true;
  return range_.first(bytes);
}

void reserved_memory::give_back(mutable_bytes memory) noexcept {
  FERRY_ASSERT(taken_ && memory.data() == range_.data());
  taken_ = false;
}

bool reserved_memory::release_cache(bool) noexcept {
  return false;
}

} // namespace ferry
