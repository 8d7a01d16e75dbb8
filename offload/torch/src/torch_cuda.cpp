// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/torch_cuda.hpp"

#include "ferry/torch/torch_failure.hpp"

#include <ATen/Context.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>

namespace ferry {

namespace {

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(
      failure{errc::unsupported, "libtorch cannot be used with CUDA: " + std::move(detail)});
}

/// Returns where the CUDA half is that belongs to the loaded CPU half.
std::filesystem::path cuda_half() {
  Dl_info loaded{};
  static_cast<void>(dladdr(reinterpret_cast<const void*>(&c10::DeviceTypeName), &loaded));
  const auto beside = loaded.dli_fname == nullptr
                          ? std::filesystem::path()
                          : std::filesystem::path(loaded.dli_fname).parent_path();
  return beside / "libtorch_cuda.so";
}

} // namespace

result<void> load_torch_cuda() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock{one_at_a_time};
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) {
    const auto library = cuda_half();
    // What it registers on the way cannot be taken back, so that it is never closed.
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      const auto* why = dlerror();
      if (std::error_code ignored; !std::filesystem::exists(library, ignored))
        return refuse(library.string() +
                      " is not there; expected a libtorch that was built with CUDA");
      return refuse(why == nullptr ? "it cannot be loaded" : why);
    }
  }
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA))
    return refuse("its library registers no CUDA device");
  try {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    if (cuda.deviceCount() > 0 && !at::globalContext().hasCUDA())
      return refuse("it was asked for CUDA before its CUDA half was loaded; open the device first");
  } catch (const std::exception& thrown) {
    return tl::unexpected(failure_of(thrown));
  }
  return {};
}

at::Device torch_device_of(const device& target) {
  const auto* gpu = dynamic_cast<const cuda_device*>(&target);
  if (gpu == nullptr)
    return at::kCPU;
  return {at::kCUDA, static_cast<c10::DeviceIndex>(gpu->index())};
}

torch_streams::torch_streams(std::shared_ptr<cuda_device> target) : target_(std::move(target)) {
  if (auto loaded = load_torch_cuda(); !loaded)
    throw ferry_error{std::move(loaded.error())};
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
  } catch (const std::exception& thrown) {
    throw ferry_error{failure_of(thrown)};
  }
}

torch_streams::~torch_streams() {
  for (const auto& [native, stream] : adopted_)
    target_->destroy_stream(stream);
}

stream_id torch_streams::current() {
  void* native = nullptr;
  try {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    native = cuda.getStream(torch_device_of(*target_)).native_handle();
  } catch (const std::exception& thrown) {
    throw ferry_error{failure_of(thrown)};
  }
  const auto id = find(native);
  target_->require_open(id);
  return id;
}

stream_id torch_streams::find(void* native) {
  const std::lock_guard lock{mutex_};
  const auto known =
      std::ranges::find(adopted_, native, [](const auto& each) { return each.first; });
  if (known != adopted_.end())
    return known->second;
  const auto adopted = target_->adopt_stream(native, "compute");
  adopted_.emplace_back(native, adopted);
  return adopted;
}

result<std::shared_ptr<caller_streams>> streams_of_callers(const std::shared_ptr<device>& target) {
  auto gpu = std::dynamic_pointer_cast<cuda_device>(target);
  if (gpu == nullptr)
    return std::shared_ptr<caller_streams>();
  try {
    return std::make_shared<torch_streams>(std::move(gpu));
  } catch (const ferry_error& refused) {
    return tl::unexpected(refused.reason());
  }
}

} // namespace ferry
