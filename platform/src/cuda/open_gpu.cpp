// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/open_gpu.hpp"

#include "cuda/calls.hpp"
#include "cuda/gpu.hpp"
#include "ferry/platform/numa.hpp"
#include "host/sticky_fault.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace ferry::cuda {
namespace {

constexpr const char* instead = "use host to run on this machine's CPU";

tl::unexpected<failure> refuse(errc code, std::string detail, cudaError_t status = cudaSuccess) {
  auto refusal = failure{.code = code, .detail = std::move(detail)};
  if (status != cudaSuccess)
    refusal.vendor_code = status;
  return tl::unexpected(std::move(refusal));
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int driver_version(const runtime_api& api) {
  auto version = 0;
  return api.cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version(const runtime_api& api) {
  auto version = 0;
  return api.cudaRuntimeGetVersion(&version) == cudaSuccess ? version : CUDART_VERSION;
}

std::string why_no_driver(const runtime_api& api) {
  const auto driver = driver_version(api);
  if (driver == 0)
    return "no NVIDIA driver is running; install or load it, or " + std::string(instead);
  return "the NVIDIA driver is too old: it is for CUDA " + version_text(driver) +
         " and this build needs " + version_text(runtime_version(api)) +
         "; update the driver, or " + instead;
}

std::string why_no_device(const surroundings& here) {
  if (here.visible_devices)
    return "CUDA_VISIBLE_DEVICES is '" + *here.visible_devices +
           "', which hides every GPU; unset it or name one, or " + instead;
  return "this machine has no GPU that CUDA can use; " + std::string(instead);
}

/// What keeps all GPUs from being opened, or how many there are.
result<int> count_gpus(const runtime_api& api, const surroundings& here) {
  auto count = 0;
  const auto status = api.cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0)
    return count;
  static_cast<void>(api.cudaGetLastError());
  switch (status) {
    case cudaSuccess:
    case cudaErrorNoDevice:
      return refuse(errc::unsupported, why_no_device(here), status);
    case cudaErrorInsufficientDriver:
      return refuse(errc::unsupported, why_no_driver(api), status);
    default:
      return refuse(errc::unsupported,
                    std::string("CUDA cannot be started: cudaGetDeviceCount: ") +
                        api.cudaGetErrorName(status) + ": " + api.cudaGetErrorString(status),
                    status);
  }
}

tl::unexpected<failure> refuse_context(const runtime_api& api, int index, const char* call,
                                       cudaError_t status) {
  const auto error = error_of(api, index, call, status);
  const auto name = "cuda:" + std::to_string(index);
  if (status == cudaErrorMemoryAllocation)
    return refuse(errc::out_of_device_memory,
                  name +
                      " has no memory left even for a context; end other programs on it, or "
                      "choose another (" +
                      error.reason().detail + ")",
                  status);
  if (status == cudaErrorDevicesUnavailable)
    return refuse(errc::unsupported,
                  name +
                      " is in use by another process in exclusive mode; wait for it or choose "
                      "another (" +
                      error.reason().detail + ")",
                  status);
  if (is_fatal(status))
    return refuse(errc::device_poisoned,
                  "this process cannot use " + name +
                      " any more: an earlier operation failed on it; start a new process (" +
                      error.reason().detail + ")",
                  status);
  return refuse(errc::unsupported, error.reason().detail, status);
}

/// Returns the address on the bus in lower case, as the kernel has it, or nothing.
std::string bus_id_of(const runtime_api& api, int index) {
  std::array<char, 32> address{};
  if (api.cudaDeviceGetPCIBusId(address.data(), address.size(), index) != cudaSuccess) {
    static_cast<void>(api.cudaGetLastError());
    return {};
  }
  std::string text = address.data();
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return std::tolower(each); });
  return text;
}

result<bool> registers_read_only(const runtime_api& api, int index) {
  auto value = 0;
  const auto status =
      api.cudaDeviceGetAttribute(&value, cudaDevAttrHostRegisterReadOnlySupported, index);
  if (status == cudaSuccess)
    return value != 0;
  if (status != cudaErrorInvalidValue)
    return refuse_context(api, index, "cudaDeviceGetAttribute", status);
  static_cast<void>(api.cudaGetLastError());
  return false; // The driver is older than the attribute.
}

cudaError_t free_nothing(const runtime_api& api, int index) {
  sticky_fault fault;
  const calls on(api, index, fault);
  const beside_captures beside(on);
  return api.cudaFree(nullptr);
}

/// Makes the device's primary context, which libtorch and NCCL use as well, and finds out whether
/// it still works. It is never reset: it is not Ferry's alone.
result<void> start_context(const runtime_api& api, int index) {
  auto before = index;
  if (const auto status = api.cudaGetDevice(&before); status != cudaSuccess)
    return refuse_context(api, index, "cudaGetDevice", status);
  if (const auto status = make_current(api, index, before); status != cudaSuccess)
    return refuse_context(api, index, "cudaSetDevice", status);
  const auto works = free_nothing(api, index);
  const auto restored = before == index ? cudaSuccess : restore_device(api, before);
  if (works != cudaSuccess)
    return refuse_context(api, index, "cudaFree", works);
  if (restored != cudaSuccess)
    return refuse_context(api, before, "cudaSetDevice", restored);
  return {};
}

} // namespace

result<std::unique_ptr<cuda_device>>
open_gpu(const runtime_api& api, const cuda_device_options& options, const surroundings& here) {
  const auto count = count_gpus(api, here);
  if (!count)
    return tl::unexpected(count.error());
  const auto index = options.index;
  if (index < 0 || index >= *count)
    return refuse(errc::invalid_argument,
                  "there is no cuda:" + std::to_string(index) + ", expected 0 to " +
                      std::to_string(*count - 1) +
                      (here.visible_devices
                           ? " (CUDA_VISIBLE_DEVICES is '" + *here.visible_devices + "')"
                           : ""));

  if (const auto started = start_context(api, index); !started)
    return tl::unexpected(started.error());

  const auto read_only = registers_read_only(api, index);
  if (!read_only)
    return tl::unexpected(read_only.error());
  const auto bus_id = bus_id_of(api, index);
  return std::make_unique<gpu>(api, gpu_options{.index = index,
                                                .memory = options.memory,
                                                .registers_read_only = *read_only,
                                                .bus_id = bus_id,
                                                .node = numa_node_of_pci(here.root, bus_id)});
}

std::vector<device_listing> list_gpus(const runtime_api& api, const surroundings& here) {
  const auto count = count_gpus(api, here);
  if (!count)
    return {{.name = "cuda", .available = false, .description = count.error().detail}};
  const auto versions = ", driver for CUDA " + version_text(driver_version(api)) + ", runtime " +
                        version_text(runtime_version(api));
  std::vector<device_listing> all;
  for (auto index = 0; index < *count; ++index) {
    device_listing entry;
    entry.name = "cuda:" + std::to_string(index);
    auto properties = cudaDeviceProp{};
    const auto status = api.cudaGetDeviceProperties(&properties, index);
    entry.available = status == cudaSuccess;
    entry.description =
        entry.available ? std::string(properties.name) + " (" +
                              std::to_string(properties.totalGlobalMem >> 20) + " MiB)" + versions
                        : error_of(api, index, "cudaGetDeviceProperties", status).reason().detail;
    all.push_back(std::move(entry));
  }
  return all;
}

} // namespace ferry::cuda
