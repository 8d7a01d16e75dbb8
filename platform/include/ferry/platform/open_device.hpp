// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What a name given to `open_device` may be complemented with.
struct device_options {
  std::optional<std::size_t> memory = std::nullopt; ///< Ceiling of device memory in bytes.
  /// `host` only: see `host_device_options`.
  std::optional<std::uint64_t> page_cache = {};
  /// `sim` only: "link=25GB/s,compute=2ms,jitter=0,seed=1"; empty: defaults.
  std::string model = {};
};

/// Opens `sim`, `host`, `cuda`, `cuda:N` or, if `name` is empty, the default of this machine.
/// @return `invalid_argument` for a name or model that cannot be read, `unsupported` with the
/// reason for a device that cannot be opened here
[[nodiscard]] result<std::unique_ptr<device>> open_device(std::string_view name,
                                                          const device_options& options);

struct device_listing {
  std::string name;
  bool available = false;
  std::string description; ///< What it is, or why it cannot be opened here.
};

/// Lists the devices this build knows, available or not.
[[nodiscard]] std::vector<device_listing> list_devices();

} // namespace ferry
