// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "option_checks.hpp"

#include <charconv>
#include <cstdint>
#include <limits>

namespace ferry {

namespace {

template <class Integer>
std::string check(const std::string& text) {
  Integer value{};
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && stopped == end)
    return {};
  return "Value " + text + " is no integer from " +
         std::to_string(std::numeric_limits<Integer>::min()) + " to " +
         std::to_string(std::numeric_limits<Integer>::max());
}

} // namespace

std::string check_integer(const std::string& text) {
  return check<std::int64_t>(text);
}

std::string check_seed(const std::string& text) {
  return check<std::uint64_t>(text);
}

} // namespace ferry
