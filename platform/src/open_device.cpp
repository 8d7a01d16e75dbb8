// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/open_device.hpp"

#include "ferry/platform/cuda_device.hpp"
#include "ferry/platform/host_device.hpp"
#include "ferry/platform/sim_device.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>

namespace ferry {

namespace {

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

/// Opens `name`, which `names_cuda`.
opened open_cuda(std::string_view name, const device_options& options) {
  const auto number = name.size() > 5 ? name.substr(5) : std::string_view("0");
  auto index = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), index);
  if (read.ec != std::errc{})
    return refuse(errc::invalid_argument,
                  "device '" + std::string(name) + "' has too large a number");
  auto device = open_cuda_device({.index = index, .memory = options.memory});
  if (!device)
    return refuse(device.error().code,
                  "device '" + std::string(name) + "' cannot be opened: " + device.error().detail);
  return std::move(*device);
}

opened open_host(const device_options& options) {
  return std::make_unique<host_device>(host_device_options{
      .memory = options.memory.value_or(installed_memory()), .page_cache = options.page_cache});
}

} // namespace

result<std::unique_ptr<device>> open_device(std::string_view name, const device_options& options) {
  if (name.empty() && options.model.empty())
    if (auto found = open_cuda_device({.index = 0, .memory = options.memory}))
      return std::move(*found);
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
    return open_cuda(wanted, options);
  return refuse(errc::invalid_argument,
                "device '" + std::string(name) +
                    "' is not known; expected sim, host, cuda or cuda:N, for example cuda:0");
}

std::vector<device_listing> list_devices() {
  std::vector<device_listing> all = {
      {.name = "sim",
       .available = true,
       .description = "simulated device with a virtual clock that reports every race"},
      {.name = "host",
       .available = true,
       .description =
           "this machine's CPU and RAM (" + std::to_string(installed_memory() >> 20) + " MiB)"},
  };
  auto gpus = list_cuda_devices();
  auto& first_choice = gpus.front().available ? gpus.front() : all.back();
  first_choice.description += "; the default";
  std::ranges::move(gpus, std::back_inserter(all));
  return all;
}

} // namespace ferry
