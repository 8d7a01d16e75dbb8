// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/bounded_memory.hpp"

#include "ferry/platform/error.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

namespace ferry {

bounded_memory::~bounded_memory() {
  for (const auto& [data, left] : blocks_)
    ::munmap(data, left.bytes);
}

mutable_bytes bounded_memory::allocate(memory_kind kind, std::size_t bytes) {
  const auto on_device = kind == memory_kind::device;
  const auto* const operation = on_device ? "allocate device memory" : "allocate pinned memory";
  const auto full = on_device ? errc::out_of_device_memory : errc::out_of_host_memory;
  if (!on_device && kind != memory_kind::pinned)
    throw device_error(errc::invalid_argument, "allocate",
                       "mapped and pageable memory is not a device's to allocate");
  if (bytes == 0)
    throw device_error(errc::invalid_argument, operation, "asked for 0 bytes, expected at least 1");

  const auto lock = std::scoped_lock(mutex_);
  if (on_device && bytes > ceiling_ - device_.now)
    throw device_error(full, operation,
                       "asked for " + std::to_string(bytes) + " bytes; " +
                           std::to_string(ceiling_ - device_.now) + " of " +
                           std::to_string(ceiling_) + " are free");
  auto* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw device_error(full, operation,
                       "asked for " + std::to_string(bytes) +
                           " bytes: " + std::generic_category().message(errno));

  const auto result = mutable_bytes(static_cast<std::byte*>(data), bytes);
  blocks_.emplace(result.data(), block{kind, bytes});
  auto& used = account_of(kind);
  used.now += bytes;
  used.peak = std::max(used.peak, used.now);
  ++allocations_;
  return result;
}

bool bounded_memory::release(memory_kind kind, mutable_bytes bytes) noexcept {
  const auto lock = std::scoped_lock(mutex_);
  const auto found = blocks_.find(bytes.data());
  if (found == blocks_.end() || found->second.kind != kind || found->second.bytes != bytes.size())
    return false;
  blocks_.erase(found);
  account_of(kind).now -= bytes.size();
  ::munmap(bytes.data(), bytes.size());
  return true;
}

device_memory bounded_memory::usage() const {
  const auto lock = std::scoped_lock(mutex_);
  return {.free = ceiling_ - device_.now, .total = ceiling_};
}

void bounded_memory::report(device_counters& counters) const {
  const auto lock = std::scoped_lock(mutex_);
  counters.allocations = allocations_;
  counters.device_bytes = device_.now;
  counters.peak_device_bytes = device_.peak;
  counters.pinned_bytes = pinned_.now;
  counters.peak_pinned_bytes = pinned_.peak;
}

bounded_memory::account& bounded_memory::account_of(memory_kind kind) noexcept {
  return kind == memory_kind::device ? device_ : pinned_;
}

} // namespace ferry
