// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>
#include <ferry/torch/torch_cuda.hpp>

#include "torch/catch.hpp"
#include "torch/unit_bench.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ferry {
namespace {

using namespace test;

const at::Device gpu{at::kCUDA, 1};

// No GPU is used: a tensor knows its device, and where its memory is, without one.

TEST_CASE("every kind of tensor is on the GPU while it is not ordinary, and itself afterwards",
          "[torch][unit][cuda]") {
  const auto& kind = GENERATE(from_range(every_kind));
  CAPTURE(kind.name);
  const bool inference = GENERATE(false, true);
  const bool dropped = GENERATE(false, true);
  c10::InferenceMode mode(inference);
  bench b({kind.make()}, gpu);
  const auto& tensor = b.tensors[0];
  const auto expected = tensor.clone();
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto keys = tensor.key_set();
  const bool made_for_inference = tensor.is_inference();
  const auto strides = tensor.strides().vec();
  const auto offset = tensor.storage_offset();
  const bool requires_grad = tensor.requires_grad();

  b.unit->park();
  CHECK(tensor.device() == gpu);
  CHECK(tensor.is_cuda());
  if (dropped)
    b.unit->drop_originals();
  b.bind();
  CHECK(tensor.device() == gpu);
  CHECK(tensor.storage().device() == gpu);
  CHECK(tensor.key_set().has_backend(c10::BackendComponent::CUDABit));
  CHECK_FALSE(tensor.key_set().has_backend(c10::BackendComponent::CPUBit));
  CHECK(tensor.strides() == strides);
  CHECK(tensor.is_inference() == made_for_inference);
  b.unit->park();
  b.unit->restore(b.slot.bytes());

  CHECK(tensor.device() == at::Device(at::kCPU));
  CHECK(tensor.key_set() == keys);
  CHECK(at::equal(tensor, expected));
  CHECK(tensor.strides() == strides);
  CHECK(tensor.storage_offset() == offset);
  CHECK(tensor.unsafeGetTensorImpl() == impl);
  CHECK(tensor.requires_grad() == requires_grad);
}

TEST_CASE("a tensor that is parked for a GPU fails with the unit's name and keeps its shape",
          "[torch][unit][cuda]") {
  bench b({counted({3, 4}).t()}, gpu);

  b.unit->park();

  CHECK_THROWS_WITH(b.tensors[0].data_ptr(),
                    Catch::Contains("block 'transformer.blocks.7' is not on the device"));
  CHECK(b.tensors[0].numel() == 12);
  CHECK(b.tensors[0].device() == gpu);
}

TEST_CASE("tensors that share memory share it in a slot of a GPU", "[torch][unit][cuda]") {
  auto base = counted({4});
  bench b({base, base.view({2, 2}), base.narrow(0, 1, 2)}, gpu);

  b.bind();

  CHECK(b.tensors[0].data_ptr() == b.slot.data());
  CHECK(b.tensors[1].data_ptr() == b.slot.data());
  CHECK(b.tensors[2].data_ptr() == b.slot.data() + sizeof(float));
  CHECK(b.tensors[0].storage().unsafeGetStorageImpl() ==
        b.tensors[1].storage().unsafeGetStorageImpl());
  b.unit->restore({});
  CHECK(b.tensors[2].data_ptr() == static_cast<float*>(b.tensors[0].data_ptr()) + 1);
}

TEST_CASE("a module's parameters stay the ones that it registered", "[torch][unit][cuda]") {
  torch::nn::Linear linear{4, 3};
  const auto weight = linear->weight;
  bench b({linear->weight, linear->bias}, gpu);

  b.bind();

  for (const auto& each : linear->parameters())
    CHECK(each.device() == gpu);
  CHECK(linear->named_parameters()["weight"].unsafeGetTensorImpl() == weight.unsafeGetTensorImpl());
  b.unit->restore({});
  CHECK(linear->forward(at::ones({1, 4})).device() == at::Device(at::kCPU));
}

TEST_CASE("a pipeline refuses a device on which it does not compute", "[torch][cuda]") {
  const bench on_gpu({counted({4})}, gpu);
  const bench on_cpu({counted({4})});
  const device_traits host{.name = "host", .computes_on_host = true};
  const device_traits own{.name = "cuda:1"};
  const device_traits other{.name = "cuda:0"};

  CHECK(on_gpu.pipeline->check_device(own));
  CHECK(on_cpu.pipeline->check_device(host));
  CHECK(on_gpu.pipeline->check_device(host).error().code == errc::invalid_pipeline);
  CHECK(on_cpu.pipeline->check_device(own).error().code == errc::invalid_pipeline);
  CHECK_THAT(on_gpu.pipeline->check_device(other).error().detail,
             Catch::Contains("computes on cuda:1") && Catch::Contains("is cuda:0"));
}

bool is_loaded(const std::string& library) {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos)
      return true;
  return false;
}

std::filesystem::path own_libtorch() {
  Dl_info loaded{};
  REQUIRE(dladdr(reinterpret_cast<const void*>(&c10::DeviceTypeName), &loaded) != 0);
  return std::filesystem::path{loaded.dli_fname}.parent_path();
}

TEST_CASE("libtorch's CUDA half is loaded when it is asked for, or the reason is told",
          "[torch][cuda]") {
  const bool there = std::filesystem::exists(own_libtorch() / "libtorch_cuda.so");

  const auto loaded = load_torch_cuda();

  CHECK(loaded.has_value() == there);
  CHECK(is_loaded("libtorch_cuda.so") == there);
  if (loaded)
    CHECK(c10::impl::hasDeviceGuardImpl(at::kCUDA));
  else
    CHECK_THAT(loaded.error().detail, Catch::Contains("libtorch that was built with CUDA"));
  CHECK(load_torch_cuda().has_value() == there);
}

TEST_CASE("a device that computes on the host has no streams of callers, and loads nothing",
          "[torch][cuda]") {
  const bool before = is_loaded("libtorch_cuda.so");
  const std::shared_ptr<device> host = std::make_shared<host_device>(host_device_options{});

  CHECK(streams_of_callers(host).value() == nullptr);
  CHECK(torch_device_of(*host) == at::Device(at::kCPU));
  CHECK(is_loaded("libtorch_cuda.so") == before);
}

} // namespace
} // namespace ferry
