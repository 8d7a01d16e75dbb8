// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace ferry {

namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr auto sizes = std::to_array<unit>({
    {"", 1},
    {"B", 1},
    {"kB", 1'000},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", std::uint64_t{1} << 10},
    {"MiB", std::uint64_t{1} << 20},
    {"GiB", std::uint64_t{1} << 30},
    {"TiB", std::uint64_t{1} << 40},
});

constexpr auto times = std::to_array<unit>({
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"min", 60'000'000'000},
});

constexpr std::size_t most_decimals = 6;
constexpr std::uint64_t decimal_scale = 1'000'000;

/// Takes the digits at the front of `text`. Nothing if there are none or they do not fit.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{})
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// Takes `.digits` at the front of `text`, in units of 1 / `decimal_scale`. 0 if there is no point.
std::optional<std::uint64_t> take_decimals(std::string_view& text) {
  if (!text.starts_with('.'))
    return 0;
  text.remove_prefix(1);
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > most_decimals)
    return std::nullopt;
  auto padded = std::string(text.substr(0, digits));
  padded.resize(most_decimals, '0');
  text.remove_prefix(digits);
  auto rest = std::string_view(padded);
  return take_number(rest);
}

std::optional<std::uint64_t> read(std::string_view text, std::span<const unit> units) {
  const auto whole = take_number(text);
  if (!whole)
    return std::nullopt;
  const auto decimals = take_decimals(text);
  const auto scale = std::ranges::find(units, text, &unit::name);
  if (!decimals || scale == units.end())
    return std::nullopt;

  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const auto part = *decimals * scale->factor / decimal_scale;
  if (*whole > (most - part) / scale->factor)
    return std::nullopt;
  return *whole * scale->factor + part;
}

tl::unexpected<failure> unreadable(std::string_view what, std::string_view text,
                                   std::string_view allowed) {
  return tl::unexpected(failure{.code = errc::invalid_argument,
                                .detail = std::string(what) + " '" + std::string(text) +
                                          "' cannot be read; expected " + std::string(allowed)});
}

} // namespace

result<std::uint64_t> parse_bytes(std::string_view text) {
  if (const auto value = read(text, sizes))
    return *value;
  return unreadable("size", text,
                    "a number below 2^64 bytes, followed by nothing or by one of B, kB, MB, GB, "
                    "TB, KiB, MiB, GiB, TiB, for example 64MiB or 1.5GB");
}

result<nanoseconds> parse_duration(std::string_view text) {
  if (text == "0")
    return nanoseconds::zero();
  const auto value = read(text, times);
  if (value && *value <= static_cast<std::uint64_t>(nanoseconds::max().count()))
    return nanoseconds(static_cast<nanoseconds::rep>(*value));
  return unreadable("duration", text,
                    "a number below 2^63 ns, followed by one of ns, us, ms, s, min, for example "
                    "2ms or 0.5us");
}

std::string size_text(std::uint64_t bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, units.at(unit));
  return text.data();
}

std::string duration_text(nanoseconds span) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

} // namespace ferry
