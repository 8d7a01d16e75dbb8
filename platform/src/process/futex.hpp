// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <atomic>
#include <cstdint>

namespace ferry {

/// Sleeps at most `patience` while `word` holds `value`; may wake up sooner. Unlike
/// `std::atomic::wait` this has an end and works between processes.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 nanoseconds patience) noexcept;

/// Wakes whoever sleeps on `word`, in any process.
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;

} // namespace ferry
