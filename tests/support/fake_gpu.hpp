// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/cuda_device.hpp>

#include "cuda/open_gpu.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry::test {

using call_list = std::vector<std::string>;

/// GPUs on a fake CUDA. At the end nothing may be left, misused or pending.
class fake_gpu {
public:
  explicit fake_gpu(const fake_cuda_options& options = {}) : cuda(options) { open(0); }
  fake_gpu(const fake_gpu&) = delete;
  fake_gpu& operator=(const fake_gpu&) = delete;
  ~fake_gpu() {
    close();
    CHECK(cuda.misuse() == call_list{});
    CHECK(cuda.left() == call_list{});
  }

  /// Opens a further device, and forgets the calls so far.
  cuda_device& open(int index, std::optional<std::size_t> memory = std::nullopt) {
    devices_.push_back(cuda::open_gpu(cuda.api(), {.index = index, .memory = memory}, {}).value());
    cuda.forget_calls();
    return *devices_.back();
  }
  void close() { devices_.clear(); }

  [[nodiscard]] cuda_device& operator*() const { return *devices_.front(); }
  [[nodiscard]] cuda_device* operator->() const { return devices_.front().get(); }

  /// Returns the calls so far that do something on the device.
  [[nodiscard]] call_list work() const {
    return cuda.calls({"cudaGetDevice", "cudaSetDevice", "cudaThreadExchangeStreamCaptureMode"});
  }

  fake_cuda cuda;

private:
  std::vector<std::unique_ptr<cuda_device>> devices_;
};

template <class Attempt>
[[nodiscard]] std::optional<failure> failure_of(const Attempt& attempt) {
  try {
    attempt();
    return std::nullopt;
  } catch (const ferry_error& error) {
    return error.reason();
  }
}

} // namespace ferry::test
