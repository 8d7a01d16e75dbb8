// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/cuda_device.hpp>

#include "cuda/open_gpu.hpp"
#include "support/catch.hpp"
#include "support/fake_gpu.hpp"
#include "support/scratch_directory.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace ferry::test {
namespace {

result<std::unique_ptr<cuda_device>> open_on(const fake_cuda& cuda, int index = 0,
                                             const cuda::surroundings& here = {}) {
  return cuda::open_gpu(cuda.api(), {.index = index}, here);
}

/// Returns why no GPU can be opened, which the list of devices must say as well.
failure refusal_of(const fake_cuda& cuda, const cuda::surroundings& here = {}) {
  const auto opened = open_on(cuda, 0, here);
  REQUIRE_FALSE(opened);
  const auto listed = cuda::list_gpus(cuda.api(), here);
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "cuda");
  CHECK_FALSE(listed[0].available);
  CHECK(listed[0].description == opened.error().detail);
  CHECK(cuda.pending() == cudaSuccess);
  return opened.error();
}

// The library

TEST_CASE("the runtime's library has every function that Ferry calls, and names its version") {
  const auto api = cuda::load_runtime();

  REQUIRE(api);
  auto version = 0;
  CHECK(api->cudaRuntimeGetVersion(&version) == cudaSuccess);
  CHECK(version / 1000 == CUDART_VERSION / 1000);
  CHECK(api->cudaGetErrorName(cudaErrorNoDevice) == std::string("cudaErrorNoDevice"));
  CHECK(cuda_version() ==
        std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10));
}

TEST_CASE("without a driver the real library refuses to start, and opening says why") {
  const auto api = cuda::load_runtime();
  REQUIRE(api);
  if (cuda::driver_present())
    return;

  const auto opened = cuda::open_gpu(*api, {}, {});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::unsupported);
  CHECK_THAT(opened.error().detail, Catch::Contains("no NVIDIA driver"));
}

TEST_CASE("a library without one of the functions is refused by the name of what is missing") {
  auto nothing = 0;
  const auto look_up = [&](const char* name) -> void* {
    return std::string(name) == "cudaHostRegister" ? nullptr : &nothing;
  };

  const auto filled = cuda::fill_runtime(look_up, "libcudart.so.13");

  REQUIRE_FALSE(filled);
  CHECK(filled.error().code == errc::unsupported);
  CHECK_THAT(filled.error().detail, Catch::StartsWith("libcudart.so.13 has no cudaHostRegister"));
}

// Opening

TEST_CASE("opening a GPU makes these calls and no others") {
  fake_cuda cuda;

  const auto opened = open_on(cuda);

  REQUIRE(opened);
  CHECK((*opened)->traits().name == "cuda:0");
  CHECK((*opened)->index() == 0);
  CHECK((*opened)->traits().registers_pages);
  CHECK_FALSE((*opened)->traits().computes_on_host);
  CHECK(cuda.calls() == call_list{"cudaGetDeviceCount", "cudaGetDevice", "cudaSetDevice device=0",
                                  "cudaThreadExchangeStreamCaptureMode mode=2", "cudaFree null",
                                  "cudaThreadExchangeStreamCaptureMode mode=0",
                                  "cudaDeviceGetAttribute attribute=113 device=0",
                                  "cudaDeviceGetPCIBusId device=0"});
}

TEST_CASE("opening a GPU leaves the thread's current device as it was") {
  fake_cuda cuda({.devices = 2});
  static_cast<void>(cuda.api().cudaSetDevice(0));

  const auto opened = open_on(cuda, 1);

  REQUIRE(opened);
  CHECK((*opened)->traits().name == "cuda:1");
  CHECK(fake_cuda::current_device() == 0);
}

TEST_CASE("a GPU that cannot be made current leaves the thread's current device as it was") {
  fake_cuda cuda({.devices = 2});
  static_cast<void>(cuda.api().cudaSetDevice(0));
  cuda.fail("cudaSetDevice", cudaErrorMemoryAllocation);

  const auto opened = open_on(cuda, 1);

  REQUIRE_FALSE(opened);
  CHECK(fake_cuda::current_device() == 0);
  CHECK(cuda.pending() == cudaSuccess);
}

TEST_CASE("opening a GPU leaves the captures of other threads alone") {
  fake_cuda cuda;
  auto* const captured = cuda.make_stream();
  cuda.begin_capture(captured);

  const auto opened = open_on(cuda);

  CHECK(opened);
  CHECK(cuda.end_capture(captured));
  CHECK(fake_cuda::capture_mode_is_default());
}

TEST_CASE("using a GPU makes no context on another one that the process does not use") {
  fake_cuda cuda({.devices = 2});

  const auto opened = open_on(cuda, 1);
  REQUIRE(opened);
  const auto queue = (*opened)->create_stream("queue");
  (*opened)->destroy_stream(queue);

  CHECK(cuda.contexts() == std::set{1});
  CHECK(fake_cuda::current_device() == 1);
}

TEST_CASE("the host's node nearest to a GPU is read from where the kernel has its address") {
  fake_cuda cuda;
  const scratch_directory root;
  const auto device = root.path() / "sys/bus/pci/devices/0000:3b:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device / "numa_node") << "1\n";

  const auto opened = open_on(cuda, 0, {.visible_devices = {}, .root = root.path()});

  REQUIRE(opened);
  CHECK((*opened)->bus_id() == "0000:3b:00.0");
  CHECK((*opened)->traits().node == 1);
}

TEST_CASE("a GPU that does not know the attribute or its address is opened without them") {
  fake_cuda cuda;
  cuda.fail("cudaDeviceGetPCIBusId", cudaErrorUnknown);
  cuda.fail("cudaDeviceGetAttribute", cudaErrorInvalidValue);

  const auto opened = open_on(cuda);

  REQUIRE(opened);
  CHECK((*opened)->bus_id().empty());
  CHECK_FALSE((*opened)->traits().node.has_value());
  CHECK_FALSE((*opened)->traits().registers_pages);
  CHECK(cuda.pending() == cudaSuccess);
}

TEST_CASE("a machine without a driver is told to install one") {
  const fake_cuda cuda({.driver_version = 0});

  const auto refused = refusal_of(cuda);

  CHECK(refused.code == errc::unsupported);
  CHECK_THAT(refused.detail, Catch::StartsWith("no NVIDIA driver is running; install or load it"));
}

TEST_CASE("an old driver is refused with the version it is for and the one that is needed") {
  const fake_cuda cuda({.driver_version = 12040});

  const auto refused = refusal_of(cuda);

  CHECK(refused.code == errc::unsupported);
  CHECK_THAT(refused.detail, Catch::StartsWith("the NVIDIA driver is too old: it is for CUDA 12.4 "
                                               "and this build needs 13.0; update the driver"));
}

TEST_CASE("a machine with a driver and no GPU says so") {
  const fake_cuda cuda({.devices = 0});

  const auto refused = refusal_of(cuda);

  CHECK(refused.code == errc::unsupported);
  CHECK(refused.detail ==
        "this machine has no GPU that CUDA can use; use host to run on this machine's CPU");
}

TEST_CASE("GPUs that CUDA_VISIBLE_DEVICES hides are said to be hidden, with its value") {
  const auto* const value = GENERATE("", "-1", "7");
  const fake_cuda cuda({.devices = 0});

  const auto refused = refusal_of(cuda, {.visible_devices = value});

  CHECK(refused.code == errc::unsupported);
  CHECK_THAT(refused.detail, Catch::StartsWith("CUDA_VISIBLE_DEVICES is '" + std::string(value) +
                                               "', which hides every GPU; unset it"));
}

TEST_CASE("any other reason why CUDA does not start is passed on") {
  fake_cuda cuda;
  cuda.fail("cudaGetDeviceCount", cudaErrorSystemDriverMismatch);

  const auto opened = open_on(cuda);

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::unsupported);
  CHECK(opened.error().vendor_code == cudaErrorSystemDriverMismatch);
  CHECK_THAT(opened.error().detail,
             Catch::StartsWith("CUDA cannot be started: cudaGetDeviceCount: "));
}

TEST_CASE("an index that no GPU has is refused with those that there are") {
  const auto index = GENERATE(-1, 2, 17);
  const fake_cuda cuda({.devices = 2});

  const auto opened = open_on(cuda, index);
  const auto filtered = open_on(cuda, index, {.visible_devices = "0,3"});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_argument);
  CHECK(opened.error().detail == "there is no cuda:" + std::to_string(index) + ", expected 0 to 1");
  REQUIRE_FALSE(filtered);
  CHECK_THAT(filtered.error().detail, Catch::EndsWith("(CUDA_VISIBLE_DEVICES is '0,3')"));
}

TEST_CASE("a GPU without memory for a context is refused as full") {
  fake_cuda cuda;
  cuda.fail("cudaSetDevice", cudaErrorMemoryAllocation);

  const auto opened = open_on(cuda);

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::out_of_device_memory);
  CHECK_THAT(opened.error().detail,
             Catch::StartsWith("cuda:0 has no memory left even for a context"));
  CHECK(cuda.pending() == cudaSuccess);
}

TEST_CASE("a GPU that another process has to itself is refused with what to do") {
  fake_cuda cuda;
  cuda.fail("cudaSetDevice", cudaErrorDevicesUnavailable);

  const auto opened = open_on(cuda);

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::unsupported);
  CHECK_THAT(opened.error().detail, Catch::Contains("in use by another process in exclusive mode"));
}

TEST_CASE("a GPU on which an earlier operation of the process failed is refused as poisoned") {
  fake_cuda cuda;
  cuda.poison(cudaErrorIllegalAddress);

  const auto opened = open_on(cuda);

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::device_poisoned);
  CHECK(opened.error().vendor_code == cudaErrorIllegalAddress);
  CHECK_THAT(opened.error().detail,
             Catch::StartsWith("this process cannot use cuda:0 any more: an earlier operation "
                               "failed on it; start a new process"));
}

TEST_CASE("GPUs are listed with their memory and the versions of driver and runtime") {
  const fake_cuda cuda({.devices = 2, .memory = std::size_t{512} << 20, .driver_version = 13010});

  const auto listed = cuda::list_gpus(cuda.api(), {});

  REQUIRE(listed.size() == 2);
  CHECK(listed[0].name == "cuda:0");
  CHECK(listed[1].name == "cuda:1");
  CHECK(listed[1].available);
  CHECK(listed[1].description == "Fake GPU (512 MiB), driver for CUDA 13.1, runtime 13.0");
  CHECK(cuda.count("cudaSetDevice") == 0);
}

TEST_CASE("a GPU of which nothing is told is listed with the reason") {
  fake_cuda cuda;
  cuda.fail("cudaGetDeviceProperties", cudaErrorInvalidDevice);

  const auto listed = cuda::list_gpus(cuda.api(), {});

  REQUIRE(listed.size() == 1);
  CHECK_FALSE(listed[0].available);
  CHECK_THAT(listed[0].description, Catch::StartsWith("cudaGetDeviceProperties: "));
}

} // namespace
} // namespace ferry::test
