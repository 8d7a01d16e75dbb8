// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include <memory>

namespace ferry::test {

struct on_sim {
  static std::unique_ptr<device> open(std::size_t memory) {
    auto options = sim_options{};
    options.memory = memory;
    return std::make_unique<sim_device>(options);
  }
};

struct on_host {
  static std::unique_ptr<device> open(std::size_t memory) {
    return std::make_unique<host_device>(host_device_options{.memory = memory});
  }
};

} // namespace ferry::test

#define FERRY_DEVICE_SUBJECTS on_sim, on_host
#include "contract/device_contract.hpp"
