// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/allocator_cache.hpp>

#include <c10/core/Device.h>

namespace c10 {
struct DeviceAllocator;
}

namespace ferry {

/// A caching allocator of libtorch, as far as one device is concerned. Thread-safe, as it is.
class torch_allocator_cache final : public allocator_cache {
public:
  /// Null for the allocator: there is no telemetry, and a release does nothing.
  torch_allocator_cache(c10::DeviceAllocator* allocator, c10::DeviceIndex device)
      : allocator_(allocator), device_(device) {}

  [[nodiscard]] result<cache_telemetry> telemetry() const override;
  void release() override;

private:
  c10::DeviceAllocator* allocator_;
  c10::DeviceIndex device_;
};

/// Returns what libtorch allocates with on `device`, null if it does not compute there.
[[nodiscard]] c10::DeviceAllocator* find_device_allocator(c10::Device device);

} // namespace ferry
