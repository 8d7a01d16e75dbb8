// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "plan_rates.hpp"

#include <ferry/platform/quantity.hpp>

#include <chrono>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>

namespace ferry {

namespace {

tl::unexpected<failure> refuse(const char* option, std::string_view value, const char* expected) {
  return tl::unexpected(failure{.code = errc::invalid_argument,
                                .detail = std::string(option) + " is '" + std::string(value) +
                                          "'; expected " + expected});
}

/// Refuses a number that nobody can tell the meaning of.
tl::unexpected<failure> refuse_unit(const char* option, std::string_view value,
                                    const char* expected) {
  return tl::unexpected(failure{.code = errc::invalid_argument,
                                .detail = std::string(option) + " is '" + std::string(value) +
                                          "', which lacks its unit; expected " + expected});
}

/// As of a simulated device.
constexpr std::uint64_t least_rate = 100'000;
constexpr nanoseconds most_time = std::chrono::hours{1};

result<void> read_rate(const char* option, const std::optional<std::string>& text, double& into) {
  if (!text)
    return {};
  constexpr auto expected = "a rate of at least 100kB/s such as 25GB/s";
  if (const auto bare = parse_bytes(*text); bare && *bare != 0)
    return refuse_unit(option, *text, expected);
  const auto size = text->ends_with("/s") ? parse_bytes(text->substr(0, text->size() - 2))
                                          : result<std::uint64_t>{0};
  if (!size || *size < least_rate)
    return refuse(option, *text, expected);
  into = static_cast<double>(*size);
  return {};
}

result<nanoseconds> read_time(const char* option, std::string_view text) {
  constexpr auto expected = "a time of at most 60min such as 2ms";
  const auto time = parse_duration(text);
  if (!time && parse_bytes(text))
    return refuse_unit(option, text, expected);
  if (!time || *time > most_time)
    return refuse(option, text, expected);
  return *time;
}

/// Reads "2ms", or "transformer=2ms,transformer.blocks.3=4ms".
result<void> read_computes(const std::string& text, machine_rates& into) {
  if (text.find('=') == std::string::npos) {
    const auto time = read_time("--compute", text);
    if (!time)
      return tl::unexpected(time.error());
    into.compute = *time;
    into.computes.clear();
    return {};
  }
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return refuse("--compute", text,
                    "a time of at most 60min such as 2ms, or PATH=TIME,PATH=TIME");
    const auto time = read_time("--compute", item.substr(equals + 1));
    if (!time)
      return tl::unexpected(time.error());
    into.computes[std::string(item.substr(0, equals))] = *time;
  }
  return {};
}

result<void> read_jitter(const std::string& text, machine_rates& into) {
  const auto read = parse_sim_options("jitter=" + text);
  if (!read || text.find(',') != std::string::npos)
    return refuse("--jitter", text, "a number from 0 to 10");
  into.jitter = read->jitter;
  return {};
}

} // namespace

machine_rates rates_of(const sim_options& model) {
  return {.link = model.h2d_bandwidth,
          .latency = model.latency,
          .compute = model.compute,
          .gather = model.gather_bandwidth,
          .gather_latency = model.gather_latency,
          .gather_over_link = model.gather_over_link,
          .jitter = model.jitter};
}

result<machine_rates> read_rates(const rate_options& typed) {
  const auto model = parse_sim_options(typed.model.value_or(""));
  if (!model)
    return tl::unexpected(model.error());
  auto rates = rates_of(*model);
  if (auto refined = refine_rates(typed, rates); !refined)
    return tl::unexpected(refined.error());
  return rates;
}

result<void> refine_rates(const rate_options& typed, machine_rates& rates) {
  if (auto read = read_rate("--link", typed.link, rates.link); !read)
    return read;
  if (auto read = read_rate("--host-link", typed.host_link, rates.host); !read)
    return read;
  if (auto read = read_rate("--gather", typed.gather, rates.gather); !read)
    return read;
  if (typed.gather_latency) {
    const auto time = read_time("--gather-latency", *typed.gather_latency);
    if (!time)
      return tl::unexpected(time.error());
    rates.gather_latency = *time;
  }
  if (typed.compute)
    if (auto read = read_computes(*typed.compute, rates); !read)
      return read;
  if (typed.jitter)
    return read_jitter(*typed.jitter, rates);
  return {};
}

std::vector<std::string> keys_without_effect(const std::optional<std::string>& model) {
  std::vector<std::string> found;
  std::istringstream items(model.value_or(""));
  for (std::string item; std::getline(items, item, ',');) {
    const auto key = item.substr(0, item.find('='));
    for (const std::string_view without : {"compute_jitter", "launch", "hop", "pageable", "host"})
      if (key == without)
        found.push_back(key);
  }
  return found;
}

} // namespace ferry
