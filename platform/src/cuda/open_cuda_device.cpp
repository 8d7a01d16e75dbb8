// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/open_gpu.hpp"
#include "cuda/runtime_api.hpp"
#include "ferry/platform/cuda_device.hpp"

#include <cstdlib>
#include <string>

namespace ferry {
namespace {

constexpr const char* no_driver =
    "this machine has no NVIDIA driver: libcuda.so.1 cannot be loaded; install it, or use host "
    "to run on this machine's CPU or sim to simulate a device";

/// Loads the library once in a process, and only where there is a driver.
const result<cuda::runtime_api>& runtime() {
  static const result<cuda::runtime_api> loaded = []() -> result<cuda::runtime_api> {
    if (cuda::driver_present())
      return cuda::load_runtime();
    return tl::unexpected(failure{.code = errc::unsupported, .detail = no_driver});
  }();
  return loaded;
}

cuda::surroundings here() {
  cuda::surroundings found;
  if (const auto* const value = std::getenv("CUDA_VISIBLE_DEVICES"))
    found.visible_devices = value;
  return found;
}

} // namespace

result<std::unique_ptr<cuda_device>> open_cuda_device(const cuda_device_options& options) {
  const auto& api = runtime();
  if (!api)
    return tl::unexpected(api.error());
  return cuda::open_gpu(*api, options, here());
}

std::vector<device_listing> list_cuda_devices() {
  const auto& api = runtime();
  if (!api)
    return {{.name = "cuda", .available = false, .description = api.error().detail}};
  return cuda::list_gpus(*api, here());
}

std::string_view cuda_version() noexcept {
  static const auto version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  return version;
}

} // namespace ferry
