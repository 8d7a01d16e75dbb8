// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/dtype.hpp"

#include <array>

namespace ferry {
namespace {

struct dtype_facts {
  dtype type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array facts{
    dtype_facts{dtype::boolean, "BOOL", 1},    dtype_facts{dtype::u8, "U8", 1},
    dtype_facts{dtype::i8, "I8", 1},           dtype_facts{dtype::i16, "I16", 2},
    dtype_facts{dtype::i32, "I32", 4},         dtype_facts{dtype::i64, "I64", 8},
    dtype_facts{dtype::f8_e4m3, "F8_E4M3", 1}, dtype_facts{dtype::f8_e5m2, "F8_E5M2", 1},
    dtype_facts{dtype::f16, "F16", 2},         dtype_facts{dtype::bf16, "BF16", 2},
    dtype_facts{dtype::f32, "F32", 4},         dtype_facts{dtype::f64, "F64", 8},
};

constexpr const dtype_facts& facts_of(dtype type) noexcept {
  return facts[static_cast<std::size_t>(type)];
}

} // namespace

std::size_t element_size(dtype type) noexcept {
  return facts_of(type).bytes;
}

std::string_view to_string(dtype type) noexcept {
  return facts_of(type).name;
}

std::optional<dtype> dtype_from(std::string_view name) noexcept {
  for (const auto& each : facts) {
    if (each.name == name) {
      return each.type;
    }
  }
  return std::nullopt;
}

std::optional<conversion> conversion_between(dtype from, dtype to) noexcept {
  if (from == to)
    return conversion::none;
  if (from == dtype::bf16 && to == dtype::f32)
    return conversion::bf16_to_f32;
  if (from == dtype::f16 && to == dtype::f32)
    return conversion::f16_to_f32;
  if (from == dtype::f32 && to == dtype::bf16)
    return conversion::f32_to_bf16;
  if (from == dtype::f32 && to == dtype::f16)
    return conversion::f32_to_f16;
  if (from == dtype::f16 && to == dtype::bf16)
    return conversion::f16_to_bf16;
  return std::nullopt;
}

} // namespace ferry
