// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "option_checks.hpp"

#include <charconv>
#include <cstdint>
#include <limits>

namespace ferry {

namespace {

template <class Integer>
std::string check(const std::string& text, Integer least, Integer most) {
  Integer value{};
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && stopped == end && value >= least && value <= most)
    return {};
  return "'" + text + "'; expected an integer from " + std::to_string(least) + " to " +
         std::to_string(most);
}

} // namespace

std::string check_device_name(const std::string& text) {
  return text.empty() ? "''; expected sim, host or cuda[:N], or the option left out" : "";
}

std::string check_integer(const std::string& text) {
  using limits = std::numeric_limits<std::int64_t>;
  return check(text, limits::min(), limits::max());
}

std::string check_seed(const std::string& text) {
  using limits = std::numeric_limits<std::uint64_t>;
  return check(text, limits::min(), limits::max());
}

std::function<std::string(const std::string&)> integer_between(std::int64_t least,
                                                               std::int64_t most) {
  return [=](const std::string& text) { return check(text, least, most); };
}

} // namespace ferry
