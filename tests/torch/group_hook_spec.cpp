// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/module_stager.hpp>
#include <ferry/offload/resolve.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/torch/call.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "torch/catch.hpp"
#include "torch/gate.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace test;
using torch::nn::Module;

at::Tensor counted(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).reshape(shape);
}

struct scale : Module {
  explicit scale(const at::Tensor& by) { factor = register_parameter("factor", by); }
  at::Tensor factor;
};

/// A component with several entry points. One of its modules holds a view of a weight of its own,
/// and another the weight itself.
struct toy_component : Module, hookable {
  explicit toy_component(int seed) {
    weight = register_parameter("weight", (counted({4, 4}) + seed).sin());
    part = register_module("part", std::make_shared<scale>(weight.detach().narrow(0, 1, 1)));
    tied = register_module("tied", std::make_shared<scale>(weight));
    offset = register_buffer("offset", at::full({4}, 0.25 * seed));
  }

  at::Tensor forward(const at::Tensor& x) {
    return at::tanh(at::matmul(x, weight) * part->factor + tied->factor.sum() + offset);
  }
  at::Tensor decode(const at::Tensor& x) { return call(*this, x) + 1; }
  at::Tensor fail(const at::Tensor&) { throw std::runtime_error("the body failed"); }

  at::Tensor weight, offset;
  std::shared_ptr<scale> part, tied;
};

/// Notes who enters and leaves; refuses when it is told to.
struct noting_gate final : group_gate {
  void enter(group_id group) override {
    if (refuses)
      throw ferry_error({errc::transfer_aborted, "the gate refuses"});
    trace += "+" + std::to_string(static_cast<std::uint32_t>(group));
  }
  void leave(group_id group) noexcept override {
    trace += "-" + std::to_string(static_cast<std::uint32_t>(group));
  }

  std::string trace;
  bool refuses = false;
};

/// One component behind a noting gate.
struct noted {
  noted() { pipeline.install_group_hook(id, group_id{7}, gate); }

  std::shared_ptr<toy_component> component = std::make_shared<toy_component>(1);
  torch_pipeline pipeline{{.type_name = "test", .components = {{"vae", component}}}};
  object_id id = node_at(pipeline, "vae")->identity();
  std::shared_ptr<noting_gate> gate = std::make_shared<noting_gate>();
  at::Tensor input = at::ones({2, 4});
};

TEST_CASE("every entry point of a hooked module enters its group and leaves it",
          "[torch][group_hook]") {
  noted n;

  call(*n.component, n.input);
  call_method(*n.component, "encode", &toy_component::forward, n.input);

  CHECK(n.gate->trace == "+7-7+7-7");
}

TEST_CASE("an entry point that calls another nests", "[torch][group_hook]") {
  noted n;

  call_method(*n.component, "decode", &toy_component::decode, n.input);

  CHECK(n.gate->trace == "+7+7-7-7");
}

TEST_CASE("a body that throws leaves the group", "[torch][group_hook]") {
  noted n;

  CHECK_THROWS_WITH(call_method(*n.component, "fail", &toy_component::fail, n.input),
                    "the body failed");

  CHECK(n.gate->trace == "+7-7");
}

TEST_CASE("a group that could not be entered is not left, and the body does not run",
          "[torch][group_hook]") {
  noted n;
  n.gate->refuses = true;

  CHECK_THROWS_WITH(call_method(*n.component, "fail", &toy_component::fail, n.input),
                    Catch::Contains("the gate refuses"));

  CHECK(n.gate->trace.empty());
}

TEST_CASE("a module takes one group hook, beside hooks of others", "[torch][group_hook]") {
  noted n;
  n.component->hooks().add(*n.component, "cache", std::make_shared<hook>());

  CHECK_THROWS_WITH(n.pipeline.install_group_hook(n.id, group_id{8}, n.gate),
                    Catch::Contains("is staged by another backend"));

  CHECK(n.component->hooks().names() == std::vector<std::string>{"cache", "sequential_offload"});
}

TEST_CASE("removing a group hook takes that hook only, and twice is once", "[torch][group_hook]") {
  noted n;
  n.component->hooks().add(*n.component, "cache", std::make_shared<hook>());

  n.pipeline.remove_group_hook(n.id);
  n.pipeline.remove_group_hook(n.id);

  CHECK(n.component->hooks().names() == std::vector<std::string>{"cache"});
  call(*n.component, n.input);
  CHECK(n.gate->trace.empty());
}

TEST_CASE("a module that cannot be hooked, or is not there, takes no group hook",
          "[torch][group_hook]") {
  noted n;
  const auto plain = node_at(n.pipeline, "vae.part")->identity();

  CHECK_THROWS_WITH(n.pipeline.install_group_hook(plain, group_id{}, n.gate),
                    Catch::Contains("cannot be hooked"));
  CHECK_THROWS_WITH(n.pipeline.install_group_hook(object_id{1}, group_id{}, n.gate),
                    Catch::Contains("resolve the pipeline again"));
  CHECK_NOTHROW(n.pipeline.remove_group_hook(object_id{1}));
}

/// Stages on the calling thread.
class staging_gate final : public group_gate {
public:
  staging_gate(sim_device& gpu, torch_pipeline& pipeline, const transfer_plan& plan)
      : plan_(plan), copies_(gpu, "stage"), compute_(gpu, "compute"),
        region_(gpu, memory_kind::device, plan.group_bytes) {
    for (const auto& each : plan.groups) {
      auto range = region_.bytes().subspan(each.offset, each.layout.bytes);
      memory_.push_back(std::make_unique<reserved_memory>(range));
      stagers.push_back(
          std::make_unique<module_stager>(gpu, pipeline.make_unit(each.path, each.layout),
                                          stager_options{.path = each.path}, *memory_.back()));
    }
  }
  staging_gate(const staging_gate&) = delete;
  staging_gate& operator=(const staging_gate&) = delete;
  ~staging_gate() override { drain(); }

  void enter(group_id group) override {
    const auto index = static_cast<std::size_t>(group);
    for (const auto other : plan_.groups[index].excludes)
      stagers[static_cast<std::size_t>(other)]->offload(copies_);
    stagers[index]->load(copies_);
    compute_.wait(stagers[index]->ready(), compute_waits_stage);
    compute_.settle();
  }

  void leave(group_id group) noexcept override {
    compute_.record(stagers[static_cast<std::size_t>(group)]->last_use());
  }

  void drain() {
    copies_.synchronize(drain_before_restore);
    compute_.synchronize(drain_compute_before_release);
  }

private:
  const transfer_plan& plan_;
  stream copies_;
  stream compute_;
  memory_block region_;
  std::vector<std::unique_ptr<reserved_memory>> memory_;

public:
  std::vector<std::unique_ptr<module_stager>> stagers;
};

/// An encoder and a denoiser that take turns on a simulated device.
struct swapped {
  explicit swapped(bool inference) : mode(inference) {
    for (const auto& each : plan.groups)
      for (const auto entry : each.entries)
        pipeline.install_group_hook(entry, each.id, gate);
  }

  void restore() {
    for (const auto& each : plan.groups)
      for (const auto entry : each.entries)
        pipeline.remove_group_hook(entry);
    gate->drain();
    for (const auto& each : gate->stagers)
      each->restore();
  }

  at::Tensor run() { return call(*dit, call(*encoder, input)); }

  c10::InferenceMode mode;
  std::shared_ptr<toy_component> encoder = std::make_shared<toy_component>(1);
  std::shared_ptr<toy_component> dit = std::make_shared<toy_component>(2);
  at::Tensor input = at::ones({2, 4});
  at::Tensor resident = dit->forward(encoder->forward(input));
  torch_pipeline pipeline{
      {.type_name = "test",
       .components = {{"text_encoder", encoder}, {"transformer", dit}},
       .roles = component_roles{.dits = {"transformer"}, .encoders = {"text_encoder"}}}};
  transfer_plan plan = plan_transfers(
      resolve(pipeline,
              resolve_config(R"({"mode":"module","components":["dit","text_encoder"]})", {})
                  .value()
                  .config)
          .value());
  sim_device gpu{sim_options{}};
  std::shared_ptr<staging_gate> gate = std::make_shared<staging_gate>(gpu, pipeline, plan);
};

TEST_CASE("components that take turns on the device give the resident bits",
          "[torch][group_hook]") {
  swapped s{GENERATE(false, true)};

  for (int request = 0; request != 2; ++request)
    CHECK(at::equal(s.run(), s.resident));

  CHECK_FALSE(s.gate->stagers[0]->loaded());
  CHECK(s.gate->stagers[1]->loaded());
  CHECK(s.gpu.counters().device_bytes == s.plan.groups[0].layout.bytes);
  CHECK(s.gpu.counters().d2h_bytes == 0);
  CHECK(s.gpu.race_count() == 0);
  s.restore();
}

TEST_CASE("a component that is away fails with its name when it is called past its hooks",
          "[torch][group_hook]") {
  swapped s{true};
  s.run();

  CHECK_THROWS_WITH(s.encoder->forward(s.input), Catch::Contains("text_encoder"));
  s.restore();
}

TEST_CASE("views and ties across modules still share memory on the device and afterwards",
          "[torch][group_hook]") {
  swapped s{GENERATE(false, true)};
  const auto share = [](const toy_component& each) {
    const auto* weight = static_cast<const float*>(each.weight.data_ptr());
    return each.part->factor.data_ptr() == weight + 4 && each.tied->factor.data_ptr() == weight;
  };

  s.run();
  CHECK(share(*s.dit));
  CHECK(s.dit->weight.data_ptr() == s.gate->stagers[1]->region().data());
  CHECK(s.plan.groups[1].layout.storages.size() == 2);
  s.restore();

  CHECK(share(*s.dit));
  CHECK(share(*s.encoder));
  CHECK(at::equal(s.dit->forward(s.encoder->forward(s.input)), s.resident));
}

TEST_CASE("tensors keep their identity and what they were made for through load and offload",
          "[torch][group_hook]") {
  const auto inference = GENERATE(false, true);
  swapped s{inference};
  const auto* impl = s.encoder->weight.unsafeGetTensorImpl();
  const auto kept = [&] {
    return s.encoder->weight.is_inference() == inference &&
           s.encoder->weight.requires_grad() == s.dit->weight.requires_grad() &&
           s.encoder->parameters()[0].unsafeGetTensorImpl() == impl;
  };

  CHECK(kept());
  call(*s.encoder, s.input);
  CHECK(kept());
  call(*s.dit, s.input);
  CHECK(kept());
  s.restore();
  CHECK(kept());
}

} // namespace
} // namespace ferry
