// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/torch_allocator_cache.hpp"

#include "ferry/torch/torch_failure.hpp"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <exception>

namespace ferry {

namespace {

std::uint64_t bytes_now(const c10::CachingAllocator::StatArray& stats) {
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(stats[all].current, 0));
}

} // namespace

result<cache_telemetry> torch_allocator_cache::telemetry() const {
  if (allocator_ == nullptr)
    return tl::unexpected(
        failure{errc::unsupported, "libtorch has no allocator whose cache could be bounded"});
  try {
    const auto stats = allocator_->getDeviceStats(device_);
    const auto [free, total] = allocator_->getMemoryInfo(device_);
    return cache_telemetry{.free = free,
                           .total = total,
                           .reserved = bytes_now(stats.reserved_bytes),
                           .allocated = bytes_now(stats.allocated_bytes)};
  } catch (const std::exception& thrown) {
    return tl::unexpected(failure_of(thrown));
  }
}

void torch_allocator_cache::release() {
  if (allocator_ == nullptr)
    return;
  try {
    allocator_->emptyCache();
  } catch (const std::exception& thrown) {
    throw ferry_error(failure_of(thrown));
  }
}

c10::DeviceAllocator* find_device_allocator(c10::Device device) {
  if (at::accelerator::getAccelerator() != device.type())
    return nullptr;
  return c10::getDeviceAllocator(device.type());
}

} // namespace ferry
