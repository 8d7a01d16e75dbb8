// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ferry {

/// One enumerator and how users write it.
template <class Enum>
struct spelling {
  Enum value;
  std::string_view text;
};

template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view spell(const spelling<Enum> (&table)[N],
                                               Enum value) noexcept {
  for (const auto& each : table) {
    if (each.value == value) {
      return each.text;
    }
  }
  return "unknown";
}

template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::optional<Enum> unspell(const spelling<Enum> (&table)[N],
                                                    std::string_view text) noexcept {
  for (const auto& each : table) {
    if (each.text == text) {
      return each.value;
    }
  }
  return std::nullopt;
}

} // namespace ferry
