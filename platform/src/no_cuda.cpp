// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// What a build without the CUDA backend has in its place.

#include "ferry/platform/cuda_device.hpp"
#include "ferry/platform/profile_ranges.hpp"

namespace ferry {

namespace {

constexpr const char* reason =
    "this build of Ferry has no CUDA backend; use host to run on this machine's CPU or sim to "
    "simulate a device";

} // namespace

result<std::unique_ptr<cuda_device>> open_cuda_device(const cuda_device_options&) {
  return tl::unexpected(failure{.code = errc::unsupported, .detail = reason});
}

std::vector<device_listing> list_cuda_devices() {
  return {{.name = "cuda", .available = false, .description = reason}};
}

std::string_view cuda_version() noexcept {
  return {};
}

std::shared_ptr<profile_ranges> nvtx_ranges() {
  return nullptr;
}

} // namespace ferry
