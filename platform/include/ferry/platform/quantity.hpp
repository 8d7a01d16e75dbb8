// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

/// Reads a size: `64MiB`, `1.5GB`, or a plain number of bytes such as `4096`.
///
/// Units are `B`, `kB` or `KB`, `MB`, `GB`, `TB` (powers of 1000) and `KiB`, `MiB`, `GiB`, `TiB`
/// (powers of 1024), written exactly so and directly behind the number. At most six digits may
/// follow the point; a fraction of a byte is dropped.
/// @return `invalid_argument`, saying what is allowed
[[nodiscard]] result<std::uint64_t> parse_bytes(std::string_view text);

/// Reads a duration: `2ms`, `0.5us`, `1s`. Units are `ns`, `us`, `ms`, `s` and `min`; only `0`
/// may stand without one. At most six digits may follow the point; a fraction of a nanosecond is
/// dropped.
/// @return `invalid_argument`, saying what is allowed
[[nodiscard]] result<nanoseconds> parse_duration(std::string_view text);

/// Returns a size as people read it: "512 B", "1.5 MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// Returns how long somebody waits as people read it: "60 s", "2500 ms".
[[nodiscard]] std::string duration_text(nanoseconds span);

} // namespace ferry
