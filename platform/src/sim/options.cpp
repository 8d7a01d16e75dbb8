// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/numa.hpp"
#include "ferry/platform/quantity.hpp"
#include "ferry/platform/sim_options.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

// So that sums over long runs stay in range.
constexpr std::uint64_t least_rate = 100'000;
constexpr nanoseconds most_time = std::chrono::hours{1};

bool read_rate(std::string_view text, double& target) {
  if (!text.ends_with("/s"))
    return false;
  auto value = parse_bytes(text.substr(0, text.size() - 2));
  if (!value || *value < least_rate)
    return false;
  target = static_cast<double>(*value);
  return true;
}

bool read_time(std::string_view text, nanoseconds& target) {
  auto value = parse_duration(text);
  if (!value || *value > most_time)
    return false;
  target = *value;
  return true;
}

bool read_size(std::string_view text, std::size_t& target) {
  auto value = parse_bytes(text);
  if (value)
    target = static_cast<std::size_t>(*value);
  return value.has_value();
}

template <class Number>
bool read_number(std::string_view text, Number& target, Number most) {
  auto value = Number{};
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || !(value >= 0 && value <= most))
    return false;
  target = value;
  return true;
}

bool read_switch(std::string_view text, bool& target) {
  if (text != "true" && text != "false")
    return false;
  target = text == "true";
  return true;
}

/// Returns what `key` expects, or nothing if there is no such key; `read` says whether it got it.
std::optional<std::string_view> assign(sim_options& options, std::string_view key,
                                       std::string_view value, bool& read) {
  auto rate = [&](double& target) {
    read = read_rate(value, target);
    return "a rate of at least 100kB/s such as 25GB/s";
  };
  auto time = [&](nanoseconds& target) {
    read = read_time(value, target);
    return "a time of at most 60min such as 2ms";
  };
  auto size = [&](std::size_t& target) {
    read = read_size(value, target);
    return "a size such as 512MiB";
  };
  auto variation = [&](double& target) {
    read = read_number(value, target, 10.0);
    return "a number from 0 to 10";
  };
  auto flag = [&](bool& target) {
    read = read_switch(value, target);
    return "true or false";
  };

  if (key == "link") {
    rate(options.h2d_bandwidth);
    return rate(options.d2h_bandwidth);
  }
  if (key == "h2d")
    return rate(options.h2d_bandwidth);
  if (key == "d2h")
    return rate(options.d2h_bandwidth);
  if (key == "pageable")
    return rate(options.pageable_bandwidth);
  if (key == "host")
    return rate(options.host_bandwidth);
  if (key == "on_device")
    return rate(options.on_device_bandwidth);
  if (key == "gather")
    return rate(options.gather_bandwidth);
  if (key == "latency")
    return time(options.latency);
  if (key == "compute")
    return time(options.compute);
  if (key == "launch")
    return time(options.launch);
  if (key == "hop")
    return time(options.hop);
  if (key == "gather_latency")
    return time(options.gather_latency);
  if (key == "memory")
    return size(options.memory);
  if (key == "pinned")
    return size(options.pinned);
  if (key == "jitter")
    return variation(options.jitter);
  if (key == "compute_jitter")
    return variation(options.compute_jitter);
  if (key == "gather_over_link")
    return flag(options.gather_over_link);
  if (key == "in_place")
    return flag(options.in_place);
  if (key == "contents")
    return flag(options.contents);
  if (key == "node") {
    read = read_number(value, options.node.emplace(), numa_policy::most_nodes - 1);
    return "an integer from 0 to 1023";
  }
  if (key == "seed") {
    read = read_number(value, options.seed, ~std::uint64_t{0});
    return "an integer from 0 to 18446744073709551615";
  }
  return std::nullopt;
}

tl::unexpected<failure> rejected(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

} // namespace

result<sim_options> parse_sim_options(std::string_view text) {
  sim_options options;
  while (!text.empty()) {
    auto comma = text.find(',');
    auto item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);

    auto equals = item.find('=');
    if (equals == std::string_view::npos)
      return rejected("sim: '" + std::string(item) + "' is not of the form key=value");
    auto key = item.substr(0, equals);
    auto value = item.substr(equals + 1);
    auto read = false;
    auto expected = assign(options, key, value, read);
    if (!expected)
      return rejected("sim." + std::string(key) +
                      " is unknown; expected link, h2d, d2h, pageable, on_device, host, latency, "
                      "compute, launch, hop, gather, gather_latency, gather_over_link, seed, "
                      "jitter, compute_jitter, memory, pinned, contents or node");
    if (!read)
      return rejected("sim." + std::string(key) + " is '" + std::string(value) + "'; expected " +
                      std::string(*expected));
  }
  return options;
}

} // namespace ferry
