// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ferry {

/// Element types that weights come in.
enum class dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  f8_e4m3,
  f8_e5m2,
  f16,
  bf16,
  f32,
  f64,
};

/// Returns the size of one element in bytes.
[[nodiscard]] std::size_t element_size(dtype type) noexcept;

/// Returns the name used in safetensors headers: "F32", "BF16", "F8_E4M3", "BOOL".
[[nodiscard]] std::string_view to_string(dtype type) noexcept;

/// Reads a name used in safetensors headers.
[[nodiscard]] std::optional<dtype> dtype_from(std::string_view name) noexcept;

/// Returns how a copy makes elements of type `to` from those of type `from`; nothing if none does.
[[nodiscard]] std::optional<conversion> conversion_between(dtype from, dtype to) noexcept;

} // namespace ferry
