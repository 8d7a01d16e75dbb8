// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/sticky_fault.hpp"

#include "ferry/platform/error.hpp"

namespace ferry {

void sticky_fault::raise(std::string_view reason) {
  const auto lock = std::scoped_lock(mutex_);
  if (raised())
    return;
  reason_ = reason;
  raised_.store(true, std::memory_order_release);
}

void sticky_fault::rethrow(std::string_view operation) const {
  if (raised())
    throw device_error(errc::device_failure, operation, reason());
}

void sticky_fault::refuse(std::string_view operation) const {
  if (raised())
    throw device_error(errc::device_poisoned, operation, "the device has failed: " + reason());
}

std::string sticky_fault::reason() const {
  const auto lock = std::scoped_lock(mutex_);
  return reason_;
}

} // namespace ferry
