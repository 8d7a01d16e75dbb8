// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>
#include <string_view>

namespace ferry {

/// Returns the bytes of one element before and after.
[[nodiscard]] std::size_t source_element(conversion how) noexcept;
[[nodiscard]] std::size_t target_element(conversion how) noexcept;

/// Returns how many bytes become of `source_bytes`, which are whole elements.
[[nodiscard]] std::size_t converted_bytes(conversion how, std::size_t source_bytes) noexcept;

/// Returns how many bytes become `target_bytes`, which are whole elements.
[[nodiscard]] std::size_t unconverted_bytes(conversion how, std::size_t target_bytes) noexcept;

/// Returns "bf16 to f32" and the like, "nothing" for `conversion::none`.
[[nodiscard]] std::string_view to_string(conversion how) noexcept;

/// Writes the elements of `source` to `target`, which do not overlap and may be aligned anyhow.
/// What widens is exact. What narrows is rounded to the nearest, to even between two, and beyond
/// the range to infinity; what is no number stays so. @pre `target` has `converted_bytes`
void convert(conversion how, const_bytes source, mutable_bytes target) noexcept;

/// Returns whether a finite element of `source` would become infinite.
[[nodiscard]] bool overflows(conversion how, const_bytes source) noexcept;

} // namespace ferry
