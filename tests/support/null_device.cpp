// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/null_device.hpp"

#include <ferry/platform/error.hpp>

#include <sys/mman.h>

#include <limits>

namespace ferry::test {

mutable_bytes null_device::allocate(memory_kind kind, std::size_t bytes) {
  auto* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw device_error(errc::out_of_device_memory, "allocate", "no address space left");
  ++allocations_;
  bytes_of(kind) += bytes;
  return {static_cast<std::byte*>(data), bytes};
}

void null_device::release(memory_kind kind, mutable_bytes block) noexcept {
  bytes_of(kind) -= block.size();
  ::munmap(block.data(), block.size());
}

device_memory null_device::memory() const {
  constexpr auto total = std::numeric_limits<std::uint64_t>::max();
  return {.free = total - device_bytes_, .total = total};
}

void null_device::register_pages(const_bytes) {
  throw device_error(errc::unsupported, "register pages", "there is nothing to register with");
}

stream_id null_device::create_stream(std::string_view) {
  ++streams_;
  return stream_id{++last_id_};
}

void null_device::destroy_stream(stream_id) noexcept {
  --streams_;
}

event_id null_device::create_event() {
  ++events_;
  return event_id{++last_id_};
}

void null_device::destroy_event(event_id) noexcept {
  --events_;
}

void null_device::copy(stream_id, const copy_operation& operation) {
  copies_.fetch_add(1, std::memory_order_relaxed);
  copied_bytes_.fetch_add(operation.source.size(), std::memory_order_relaxed);
}

device_counters null_device::counters() const {
  auto result = device_counters{};
  result.h2d_bytes = copied_bytes_;
  result.copies = copies_;
  result.allocations = allocations_;
  result.device_bytes = device_bytes_;
  result.pinned_bytes = pinned_bytes_;
  result.streams = streams_;
  result.events = events_;
  return result;
}

std::atomic<std::uint64_t>& null_device::bytes_of(memory_kind kind) noexcept {
  return kind == memory_kind::device ? device_bytes_ : pinned_bytes_;
}

} // namespace ferry::test
