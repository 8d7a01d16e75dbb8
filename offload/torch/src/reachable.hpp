// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ferry {

/// Returns why `address` names no host, in the words of the system; nothing if it names one.
[[nodiscard]] std::optional<std::string> unknown_host(const std::string& address);

/// Returns whether `address` is one of this machine's.
[[nodiscard]] bool is_own_address(const std::string& address);

/// Waits until somebody listens at a TCP address. Returns false if nobody does within `patience`.
[[nodiscard]] bool await_listener(const std::string& address, std::uint16_t port,
                                  nanoseconds patience);

} // namespace ferry
