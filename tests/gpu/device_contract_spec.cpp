// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/gpu.hpp"

namespace ferry::test {

struct on_cuda {
  static std::unique_ptr<device> open(std::size_t memory) { return open_gpu(0, memory); }
};

} // namespace ferry::test

#define FERRY_DEVICE_SUBJECTS on_cuda
#include "contract/device_contract.hpp"
