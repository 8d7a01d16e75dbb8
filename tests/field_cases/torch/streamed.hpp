// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include "field_cases/torch/toy.hpp"
#include "torch/catch.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace ferry::test {

inline constexpr auto dit_only = R"({"mode":"layer","components":["dit"]})";
inline constexpr auto dit_and_encoder = R"({"mode":"layer","components":["dit","text_encoder"]})";

inline offload_config compact(std::string_view json) {
  return resolve_config(json, {}).value().config;
}

inline std::shared_ptr<sim_device> simulated() {
  sim_options options;
  options.timeline_limit = 16;
  return std::make_shared<sim_device>(options);
}

/// Returns the simulated device, or one whose copies are real.
inline std::shared_ptr<device> device_called(std::string_view name) {
  if (name == "sim")
    return simulated();
  return std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 24});
}

inline bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

/// Returns copies of all weights of `model`.
inline std::vector<at::Tensor> weights_of(const toy& model) {
  std::vector<at::Tensor> all;
  const at::NoGradGuard no_gradients;
  for (const auto& component : model.description().components) {
    for (const auto& each : component.module->parameters())
      all.push_back(each.clone());
    for (const auto& each : component.module->buffers())
      all.push_back(each.clone());
  }
  return all;
}

/// A toy, a device and the runtime between them, beside what the toy computes when everything is
/// resident.
class streamed {
public:
  streamed(toy& model, std::shared_ptr<device> target)
      : model_(&model), pipeline_(std::make_shared<torch_pipeline>(model.description())),
        gpu_(std::move(target)), before_(weights_of(model)), runtime_(gpu_, {}) {
    {
      const resident_weights everything(*pipeline_);
      resident_ = model.generate();
    }
    REQUIRE(runtime_.start());
  }

  [[nodiscard]] result<void> enable(const offload_config& config) {
    return runtime_.enable(pipeline_, config);
  }
  [[nodiscard]] result<void> enable() { return enable(compact(dit_and_encoder)); }
  [[nodiscard]] result<void> disable() { return runtime_.disable(); }

  /// Returns what a request makes.
  [[nodiscard]] at::Tensor request() {
    REQUIRE(runtime_.begin_request());
    auto made = model_->generate();
    REQUIRE(runtime_.end_request());
    return made;
  }

  /// Returns what the toy made when everything was resident.
  [[nodiscard]] const at::Tensor& resident() const { return resident_; }

  /// Returns whether a request gives the bytes of the resident run.
  [[nodiscard]] bool bit_equal() { return same_bytes(request(), resident_); }

  /// Returns whether the weights are those from before, and nothing is on the device.
  [[nodiscard]] bool ordinary() const {
    const auto counters = gpu_->counters();
    return std::ranges::equal(weights_of(*model_), before_, same_bytes) &&
           counters.device_bytes == 0 && counters.pinned_bytes == 0;
  }

  [[nodiscard]] offload_state state() const { return runtime_.state().value(); }
  [[nodiscard]] device_counters counters() const { return gpu_->counters(); }
  [[nodiscard]] const torch_pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] runtime& control() { return runtime_; }

private:
  toy* model_;
  std::shared_ptr<torch_pipeline> pipeline_;
  std::shared_ptr<device> gpu_;
  std::vector<at::Tensor> before_;
  at::Tensor resident_;
  runtime runtime_;
};

/// Returns whether `tensor` lies in device memory of `gpu`.
inline bool lies_on(const sim_device& gpu, const at::Tensor& tensor) {
  const auto* at = static_cast<const std::byte*>(tensor.data_ptr());
  return std::ranges::any_of(gpu.allocations(), [at](const sim_allocation& each) {
    return each.kind == memory_kind::device && at >= each.block.data() &&
           at < each.block.data() + each.block.size();
  });
}

} // namespace ferry::test
