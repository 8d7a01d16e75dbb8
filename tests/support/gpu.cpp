// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/gpu.hpp"

namespace ferry::test {
std::string why_no_gpu() {
  const auto first = list_cuda_devices().front();
  return first.available ? "" : "no GPU: " + first.description;
}

std::unique_ptr<cuda_device> open_gpu(int index, std::optional<std::size_t> memory) {
  return open_cuda_device({.index = index, .memory = memory}).value();
}

bool skipped_without(std::size_t gpus) {
  const auto found = list_cuda_devices().size();
  if (found >= gpus)
    return false;
  skip("needs " + std::to_string(gpus) + " GPUs, found " + std::to_string(found));
  return true;
}

} // namespace ferry::test
