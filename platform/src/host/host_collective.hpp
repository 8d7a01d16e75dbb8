// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/host_device.hpp"

#include <functional>
#include <optional>
#include <utility>

namespace ferry {

/// What enqueues collectives on a host device. See `host_device::gather`.
struct host_collective {
  static void enqueue(host_device& device, stream_id stream, operation_tag tag, std::uint64_t bytes,
                      std::function<void(const std::optional<failure>& lost)> exchange) {
    device.gather(stream, tag, bytes, std::move(exchange));
  }
};

} // namespace ferry
