// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>

#include <memory>

namespace ferry::test {

struct on_host {
  static std::unique_ptr<device> open(std::size_t memory) {
    return std::make_unique<host_device>(host_device_options{.memory = memory});
  }
};

} // namespace ferry::test

#define FERRY_DEVICE_SUBJECTS on_host

#include "contract/device_contract.hpp"
