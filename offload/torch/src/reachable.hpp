// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <string>

namespace ferry {

/// Waits until somebody listens at a TCP address. Returns false if nobody does within `patience`.
[[nodiscard]] bool await_listener(const std::string& address, std::uint16_t port,
                                  nanoseconds patience);

} // namespace ferry
