// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/memory.hpp"

#include <unistd.h>

#include <utility>

namespace ferry {

std::size_t page_bytes() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

memory_block::memory_block(device& owner, memory_kind kind, std::size_t bytes)
    : owner_(&owner), kind_(kind),
      bytes_(bytes == 0 ? mutable_bytes{} : owner.allocate(kind, bytes)) {}

memory_block::memory_block(memory_block&& other) noexcept
    : owner_(other.owner_), kind_(other.kind_), bytes_(std::exchange(other.bytes_, {})) {}

memory_block& memory_block::operator=(memory_block&& other) noexcept {
  auto old = std::move(*this);
  owner_ = other.owner_;
  kind_ = other.kind_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

memory_block::~memory_block() {
  if (!bytes_.empty())
    owner_->release(kind_, bytes_);
}

} // namespace ferry
