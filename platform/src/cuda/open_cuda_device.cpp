// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/runtime_api.hpp"
#include "ferry/platform/cuda_device.hpp"

#include <string>

namespace ferry {
namespace {

constexpr const char* no_driver =
    "this machine has no NVIDIA driver: libcuda.so.1 cannot be loaded; install it, or use host "
    "to run on this machine's CPU or sim to simulate a device";

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::unsupported, .detail = std::move(detail)});
}

/// Loads the library once in a process, and only where there is a driver.
const result<cuda::runtime_api>& runtime() {
  static const result<cuda::runtime_api> loaded = [] {
    return cuda::driver_present() ? cuda::load_runtime() : refuse(no_driver);
  }();
  return loaded;
}

} // namespace

result<std::unique_ptr<cuda_device>> open_cuda_device(const cuda_device_options&) {
  const auto& api = runtime();
  if (!api)
    return tl::unexpected(api.error());
  return refuse("the CUDA backend is not complete");
}

std::vector<device_listing> list_cuda_devices() {
  const auto opened = open_cuda_device({});
  return {{.name = "cuda", .available = false, .description = opened.error().detail}};
}

std::string_view cuda_version() noexcept {
  static const auto version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  return version;
}

} // namespace ferry
