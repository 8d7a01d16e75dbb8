// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/open_device.hpp"

#include "ferry/platform/host_device.hpp"
#include "ferry/platform/sim_device.hpp"

#include <algorithm>
#include <string>

namespace ferry {

namespace {

constexpr std::string_view no_cuda =
    "this build of Ferry has no CUDA backend; use host to run on this machine's CPU or sim to "
    "simulate a device";

using opened = result<std::unique_ptr<device>>;

tl::unexpected<failure> refuse(errc code, std::string detail) {
  return tl::unexpected(failure{.code = code, .detail = std::move(detail)});
}

/// Whether `name` is `cuda` or `cuda:N`.
bool names_cuda(std::string_view name) noexcept {
  if (!name.starts_with("cuda"))
    return false;
  const auto rest = name.substr(4);
  return rest.empty() ||
         (rest.size() > 1 && rest.front() == ':' &&
          std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
}

opened open_sim(const device_options& options) {
  auto parsed = parse_sim_options(options.model);
  if (!parsed)
    return tl::unexpected(std::move(parsed).error());
  if (options.memory)
    parsed->memory = *options.memory;
  return std::make_unique<sim_device>(*parsed);
}

opened open_host(const device_options& options) {
  return std::make_unique<host_device>(
      host_device_options{.memory = options.memory.value_or(installed_memory())});
}

} // namespace

result<std::unique_ptr<device>> open_device(std::string_view name, const device_options& options) {
  const auto wanted = name.empty() ? std::string_view("host") : name;
  if (wanted != "sim" && !options.model.empty())
    return refuse(errc::invalid_argument, "device '" + std::string(wanted) +
                                              "' takes no model, got '" + options.model +
                                              "'; a model belongs to the device sim");
  if (wanted == "sim")
    return open_sim(options);
  if (wanted == "host")
    return open_host(options);
  if (names_cuda(wanted))
    return refuse(errc::unsupported,
                  "device '" + std::string(wanted) + "' cannot be opened: " + std::string(no_cuda));
  return refuse(errc::invalid_argument,
                "device '" + std::string(name) +
                    "' is not known; expected sim, host, cuda or cuda:N, for example cuda:0");
}

std::vector<device_listing> list_devices() {
  return {
      {.name = "sim",
       .available = true,
       .description = "simulated device with a virtual clock that reports every race"},
      {.name = "host",
       .available = true,
       .description = "this machine's CPU and RAM (" + std::to_string(installed_memory() >> 20) +
                      " MiB); the default"},
      {.name = "cuda", .available = false, .description = std::string(no_cuda)},
  };
}

} // namespace ferry
