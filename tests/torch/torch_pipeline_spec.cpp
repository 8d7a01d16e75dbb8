// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/torch/block_list.hpp>
#include <ferry/torch/component_interfaces.hpp>
#include <ferry/torch/torch_failure.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "torch/catch.hpp"
#include "torch/gate.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using namespace test;
using torch::nn::Module;

/// A block of everything that goes wrong when blocks are moved: two element types, a transposed
/// weight, a 3-element bias before it, both kinds of buffers, a tensor it does not register, and a
/// weight that it uses without calling its owner.
struct toy_block : Module, hookable, declares_tensors, declares_transient_buffers {
  explicit toy_block(int seed) {
    auto values = [&](at::IntArrayRef shape) {
      return (at::arange(c10::multiply_integers(shape), at::kFloat).reshape(shape) + seed).sin();
    };
    bias = register_parameter("bias", values({3}));
    weight = register_parameter("weight", values({4, 4}).t(), false);
    table = register_parameter("table", values({4}).to(at::kBFloat16), false);
    order = register_buffer("order", at::tensor({3, 1, 0, 2}));
    mask = register_buffer("mask", values({4}) > 0);
    scale = at::scalar_tensor(1 + seed);
    inner = register_module("inner", std::make_shared<torch::nn::LinearImpl>(4, 4));
    at::NoGradGuard no_grad;
    inner->weight.copy_(values({4, 4}));
    inner->bias.copy_(values({4}));
  }

  at::Tensor forward(const at::Tensor& x, bool fail) {
    auto y = at::linear(x.index_select(1, order), inner->weight) * scale;
    if (fail)
      throw std::runtime_error("the body failed");
    y = at::matmul(y, weight).masked_fill(mask, 0.5) + table.to(at::kFloat) + bias.sum();
    return at::tanh(y);
  }

  std::vector<std::pair<std::string, at::Tensor>> unregistered_tensors() const override {
    return {{"scale", scale}};
  }
  std::vector<std::string> transient_buffers() const override { return {"mask"}; }

  at::Tensor bias, weight, table, order, mask, scale;
  std::shared_ptr<torch::nn::LinearImpl> inner;
};

struct toy_model : Module {
  toy_model() {
    blocks = register_module("blocks", std::make_shared<block_list<toy_block>>());
    for (int i = 0; i != 3; ++i)
      blocks->push_back(std::make_shared<toy_block>(i));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks)
      x = block(x, false);
    return x;
  }
  std::shared_ptr<block_list<toy_block>> blocks;
};

std::string block_path(std::size_t i) {
  return "transformer.blocks." + std::to_string(i);
}

/// A model whose blocks stream through one slot.
struct streamed {
  streamed() {
    for (std::size_t i = 0; i != 3; ++i) {
      units.push_back(unit_at(pipeline, block_path(i)));
      gate->add(*units.back());
      units.back()->park();
      units.back()->drop_originals();
    }
    for (std::size_t i = 0; i != 3; ++i)
      install(i);
  }

  object_id id(std::size_t i) { return node_at(pipeline, block_path(i))->identity(); }
  void install(std::size_t i) {
    pipeline.install_block_hook(id(i), static_cast<block_id>(i), *units[i], gate);
  }
  toy_block& block(std::size_t i) { return *(*model->blocks)[i]; }

  c10::InferenceMode inference;
  std::shared_ptr<toy_model> model = std::make_shared<toy_model>();
  at::Tensor input = at::ones({2, 4});
  at::Tensor resident = model->forward(input);
  torch_pipeline pipeline{{.type_name = "test", .components = {{"transformer", model}}}};
  std::shared_ptr<one_slot_gate> gate = std::make_shared<one_slot_gate>();
  std::vector<std::unique_ptr<weight_unit>> units;
};

TEST_CASE("streaming awkward blocks through one slot gives the resident bits",
          "[torch][pipeline]") {
  streamed s;

  CHECK(at::equal(s.model->forward(s.input), s.resident));
  CHECK(at::equal(s.model->forward(s.input), s.resident));

  CHECK(s.gate->trace == "+0-0+1-1+2-2+0-0+1-1+2-2");
}

TEST_CASE("after restore and unhook the model is as it was", "[torch][pipeline]") {
  streamed s;
  static_cast<void>(s.model->forward(s.input));

  for (std::size_t i = 0; i != 3; ++i) {
    auto master = s.gate->acquire(static_cast<block_id>(i));
    s.pipeline.remove_block_hook(s.id(i));
    s.units[i]->restore(master);
  }
  s.gate->trace.clear();

  CHECK(at::equal(s.model->forward(s.input), s.resident));
  CHECK(s.gate->trace.empty());
  CHECK(s.block(0).hooks().empty());
  CHECK(s.block(1).scale.item<float>() == 2.F);
}

TEST_CASE("a parked block that is called past its hooks fails with its name", "[torch][pipeline]") {
  streamed s;

  CHECK_THROWS_WITH(s.block(1).forward(s.input, false),
                    Catch::Contains("block 'transformer.blocks.1' is not on the device"));
}

TEST_CASE("a body that throws releases its slot and the block runs again", "[torch][pipeline]") {
  streamed s;

  CHECK_THROWS_WITH(call(s.block(0), s.input, true), "the body failed");
  CHECK(s.gate->trace == "+0-0");
  CHECK_THROWS_WITH(s.block(0).bias.sum(), Catch::Contains("is not on the device"));

  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("a block that is called while it runs is an error, and runs again", "[torch][pipeline]") {
  streamed s;
  auto& block = s.block(0);
  auto body = [&](const at::Tensor& x) { return call(block, x, false); };

  CHECK_THROWS_WITH(call_through(block.hooks(), block, "forward", body, s.input),
                    Catch::Contains("'transformer.blocks.0' is called ('forward') while it runs"));

  CHECK(s.gate->trace == "+0-0");
  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("calls inside a hold share one use of the block and give the resident bits",
          "[torch][pipeline]") {
  streamed s;
  std::vector<at::Tensor> hidden{s.input, s.input * 2, at::ones({3, 4})};
  std::vector<at::Tensor> apart;
  for (auto& x : hidden)
    apart.push_back(s.model->forward(x));
  s.gate->trace.clear();

  for (const auto& block : *s.model->blocks) {
    const auto held = block.hold();
    for (auto& x : hidden)
      x = block(x, false);
  }

  CHECK(std::ranges::equal(hidden, apart,
                           [](const auto& a, const auto& b) { return at::equal(a, b); }));
  CHECK(s.gate->trace == "+0=0=0-0+1=1=1-1+2=2=2-2");
}

TEST_CASE("a body that throws inside a hold leaves the block to the next call",
          "[torch][pipeline]") {
  streamed s;
  {
    const auto held = (*s.model->blocks)[0].hold();

    CHECK_THROWS_WITH(call(s.block(0), s.input, true), "the body failed");
    CHECK_NOTHROW(call(s.block(0), s.input, false));
  }

  CHECK(s.gate->trace == "+0=0-0");
  CHECK_THROWS_WITH(s.block(0).bias.sum(), Catch::Contains("is not on the device"));
  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("a block that is held already, or runs, is not held", "[torch][pipeline]") {
  streamed s;
  const auto& block = (*s.model->blocks)[0];
  {
    const auto held = block.hold();
    CHECK_THROWS_WITH(block.hold(), Catch::Contains("is held while it is held already"));
  }
  auto body = [&](const at::Tensor& x) {
    CHECK_THROWS_WITH(block.hold(), Catch::Contains("is held while it is running"));
    return x;
  };

  static_cast<void>(call_through(s.block(0).hooks(), s.block(0), "forward", body, s.input));

  CHECK(s.gate->trace == "+0-0+0-0");
  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("a gate that refuses leaves the block parked and callable", "[torch][pipeline]") {
  struct refusing_gate : block_gate {
    mutable_bytes acquire(block_id) override {
      throw ferry_error({errc::transfer_aborted, "stopping"});
    }
    void again(block_id) override {}
    void release(block_id) noexcept override {}
  };
  streamed s;
  s.pipeline.remove_block_hook(s.id(0));
  s.pipeline.install_block_hook(s.id(0), block_id{0}, *s.units[0],
                                std::make_shared<refusing_gate>());

  CHECK_THROWS_WITH(call(s.block(0), s.input, false), Catch::Contains("stopping"));
  CHECK_THROWS_WITH(s.block(0).bias.sum(), Catch::Contains("is not on the device"));

  s.pipeline.remove_block_hook(s.id(0));
  s.install(0);
  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("a block streamed already takes no second hook", "[torch][pipeline]") {
  streamed s;

  CHECK_THROWS_AS(s.install(1), ferry_error);

  CHECK(s.block(1).hooks().names() == std::vector<std::string>{"layerwise_offload"});
  CHECK(at::equal(s.model->forward(s.input), s.resident));
}

TEST_CASE("removing takes the offload hook only, and twice is once", "[torch][pipeline]") {
  streamed s;
  s.block(0).hooks().add(s.block(0), "mine", std::make_shared<hook>());

  s.pipeline.remove_block_hook(s.id(0));
  s.pipeline.remove_block_hook(s.id(0));
  s.pipeline.remove_block_hook(object_id{1});

  CHECK(s.block(0).hooks().names() == std::vector<std::string>{"mine"});
}

/// Runs the block every other time and repeats its last result in between.
struct step_cache : forward_replacement<at::Tensor> {
  at::Tensor forward(const hook_call&, tensor_refs,
                     const std::function<at::Tensor()>& original) override {
    if (++calls % 2 == 1)
      last = original();
    return last;
  }
  int calls = 0;
  at::Tensor last;
};

TEST_CASE("a step cache and the offloader give the same bits in either order",
          "[torch][pipeline]") {
  static_assert(std::is_same_v<decltype(&toy_block::forward),
                               at::Tensor (toy_block::*)(const at::Tensor&, bool)>);
  streamed s;
  const auto* before = &s.block(1);
  const bool cache_first = GENERATE(false, true);
  if (cache_first)
    s.pipeline.remove_block_hook(s.id(1));
  s.block(1).hooks().add(s.block(1), "step_cache", std::make_shared<step_cache>());
  if (cache_first)
    s.install(1);

  CHECK(at::equal(s.model->forward(s.input), s.resident));
  CHECK(at::equal(s.model->forward(s.input), s.resident));

  CHECK(&s.block(1) == before);
  CHECK(s.block(1).hooks().names() == std::vector<std::string>{"layerwise_offload", "step_cache"});
}

TEST_CASE("a parked component still says where and in what type it computes", "[torch][pipeline]") {
  auto model = std::make_shared<Module>();
  model->register_parameter("norm", at::ones({3}));
  model->register_parameter("weight", at::ones({4, 4}, at::kBFloat16));
  model->register_buffer("index", at::arange(100));
  torch_pipeline pipeline({.type_name = "test", .components = {{"transformer", model}}});
  auto unit = unit_at(pipeline, "transformer");

  unit->park();

  CHECK(pipeline.compute_device("transformer") == at::Device(at::kCPU));
  CHECK(pipeline.compute_dtype("transformer") == at::kBFloat16);
  CHECK(model->named_parameters()["weight"].numel() == 16);
  CHECK_THROWS_AS(pipeline.compute_device("vae"), ferry_error);

  const torch_pipeline elsewhere({.type_name = "test",
                                  .components = {{"transformer", model}},
                                  .compute_device = at::Device(at::kCUDA, 1)});
  CHECK(elsewhere.compute_device("transformer") == at::Device(at::kCUDA, 1));
}

TEST_CASE("a single parameter at the root is a unit", "[torch][pipeline]") {
  auto model = std::make_shared<Module>();
  auto weight = model->register_parameter("weight", at::full({2}, 3.F));
  torch_pipeline pipeline({.type_name = "test", .components = {{"transformer", model}}});
  auto unit = unit_at(pipeline, "transformer");
  auto device = pack_originals(*unit);

  unit->park();
  unit->drop_originals();
  unit->bind(device.data());

  CHECK(weight.data_ptr() == device.data());
  CHECK(weight.sum().item<float>() == 6.F);
}

TEST_CASE("a unit of buffers alone parks and comes back", "[torch][pipeline]") {
  auto model = std::make_shared<Module>();
  auto table = model->register_buffer("table", at::arange(4));
  torch_pipeline pipeline({.type_name = "test", .components = {{"transformer", model}}});
  auto unit = unit_at(pipeline, "transformer");

  unit->park();
  CHECK_THROWS_WITH(table.sum(), Catch::Contains("block 'transformer' is not on the device"));
  unit->restore({});

  CHECK(table.sum().item<std::int64_t>() == 6);
}

TEST_CASE("tied weights of two components take device memory once and stay tied",
          "[torch][pipeline]") {
  auto embed = std::make_shared<Module>();
  auto head = std::make_shared<Module>();
  auto base = at::ones({64});
  embed->register_parameter("weight", base);
  head->register_parameter("weight", GENERATE(false, true) ? base : base.view({8, 8}));
  torch_pipeline pipeline({.type_name = "test", .components = {{"encoder", embed}, {"dit", head}}});
  auto unit = pipeline.make_unit("resident", pack_node(*pipeline.root()));
  auto device = pack_originals(*unit);

  unit->park();
  unit->drop_originals();
  unit->bind(device.data());
  CHECK(unit->layout().bytes == 256);
  CHECK(head->named_parameters()["weight"].data_ptr() ==
        embed->named_parameters()["weight"].data_ptr());
  unit->restore(device.bytes());
  at::NoGradGuard no_grad;
  embed->named_parameters()["weight"].fill_(2);

  CHECK(head->named_parameters()["weight"].sum().item<float>() == 128.F);
}

struct plain_block : Module {
  plain_block() { weight = register_parameter("weight", at::full({2}, 3.F)); }
  at::Tensor forward(const at::Tensor& x) { return x * weight; }
  at::Tensor weight;
};

TEST_CASE("a block without a registry is refused until its caller adopts one",
          "[torch][pipeline]") {
  c10::InferenceMode inference;
  auto block = std::make_shared<plain_block>();
  torch_pipeline pipeline({.type_name = "test", .components = {{"dit", block}}});
  auto unit = unit_at(pipeline, "dit");
  auto gate = std::make_shared<one_slot_gate>();
  gate->add(*unit);
  const auto id = node_at(pipeline, "dit")->identity();

  CHECK_THROWS_WITH(pipeline.install_block_hook(id, block_id{0}, *unit, gate),
                    Catch::Contains("'dit'") && Catch::Contains("ferry::hookable"));
  auto& hooks = pipeline.hooks_of(block);
  pipeline.install_block_hook(id, block_id{0}, *unit, gate);
  unit->park();
  auto body = [&](const at::Tensor& x) { return block->forward(x); };
  auto result = call_through(hooks, *block, "forward", body, at::ones({2}));

  CHECK(result.sum().item<float>() == 6.F);
  CHECK(gate->trace == "+0-0");
}

TEST_CASE("hooking a module that is not there is an error", "[torch][pipeline]") {
  streamed s;

  CHECK_THROWS_AS(s.pipeline.install_block_hook(object_id{1}, block_id{0}, *s.units[0], s.gate),
                  ferry_error);
}

TEST_CASE("modules that are added later are found", "[torch][pipeline]") {
  streamed s;
  s.model->blocks->push_back(std::make_shared<toy_block>(3));

  auto unit = unit_at(s.pipeline, block_path(3));

  CHECK_NOTHROW(s.pipeline.install_block_hook(s.id(3), block_id{3}, *unit, s.gate));
}

TEST_CASE("component names are unique segments of a path, with a module", "[torch][pipeline]") {
  auto module = std::make_shared<Module>();
  auto make = [](std::vector<torch_component> components) {
    torch_pipeline pipeline({.type_name = "test", .components = std::move(components)});
  };

  CHECK_THROWS_AS(make({{"a.b", module}}), ferry_error);
  CHECK_THROWS_AS(make({{"", module}}), ferry_error);
  CHECK_THROWS_AS(make({{"a", module}, {"a", module}}), ferry_error);
  CHECK_THROWS_AS(make({{"a", nullptr}}), ferry_error);
  CHECK_NOTHROW(make({{"a", module}, {"b", module}}));
}

struct own_offload final : model_offload {
  void enable(device&, const model_offload_request&) override {}
  void disable() override {}
};

TEST_CASE("what the author declares is what the pipeline says", "[torch][pipeline]") {
  const auto own = std::make_shared<own_offload>();
  torch_pipeline pipeline({.type_name = "test.pipeline",
                           .components = {},
                           .roles = component_roles{.dits = {"transformer"}},
                           .plan = offload_plan{.resident_dit_paths = {"transformer"}},
                           .custom_model_offload = own});

  CHECK(pipeline.type_name() == "test.pipeline");
  CHECK(pipeline.declared_components()->dits == std::vector<std::string>{"transformer"});
  CHECK(pipeline.declared_plan()->resident_dit_paths.contains("transformer"));
  CHECK(pipeline.custom_model_offload() == own.get());
}

struct declaring : Module, declares_blocks, stages_itself, declares_loaded {
  block_declaration declared_blocks() const override { return {{"blocks"}, false}; }
  void load_to_device() override { trace += "load "; }
  void offload_to_cpu() override { trace += "offload "; }
  bool is_loaded() const override { return false; }
  std::string trace;
};

TEST_CASE("a module says through interfaces what its node says", "[torch][tree]") {
  auto module = std::make_shared<declaring>();
  torch_pipeline pipeline(
      {.type_name = "test",
       .components = {{"says", module}, {"silent", std::make_shared<Module>()}}});
  const auto says = node_at(pipeline, "says");
  const auto silent = node_at(pipeline, "silent");

  says->load_to_device();
  says->offload_to_cpu();

  CHECK(says->declared_blocks()->attributes == std::vector<std::string>{"blocks"});
  CHECK(says->staging().load_to_device);
  CHECK(says->staging().offload_to_cpu);
  CHECK(says->is_loaded() == false);
  CHECK(module->trace == "load offload ");
  CHECK_FALSE(silent->declared_blocks());
  CHECK_FALSE(silent->staging().load_to_device);
  CHECK_FALSE(silent->is_loaded());
}

TEST_CASE("a node tells of every tensor of its own", "[torch][tree]") {
  streamed s;
  const auto node = node_at(s.pipeline, block_path(0));
  const auto tensors = node->tensors();
  std::string roles;
  for (const auto& each : tensors)
    roles += each.name +
             (each.role == tensor_role::parameter ? " parameter"
              : each.role == tensor_role::buffer  ? " buffer"
                                                  : " unregistered") +
             (each.persistent ? "\n" : " transient\n");

  CHECK(roles == "bias parameter\nweight parameter\ntable parameter\norder buffer\n"
                 "mask buffer transient\nscale unregistered transient\n");
  CHECK(tensors[1].strides == std::vector<std::int64_t>{1, 4});
  CHECK(tensors[2].type == dtype::bf16);
  CHECK(std::ranges::count(tensors, node->identity(), &tensor_info::owner) == 6);
  CHECK(node->holds(tensor_role::parameter));
  CHECK(node->holds(tensor_role::buffer));
  CHECK(node->holds(tensor_role::unregistered));
  CHECK_FALSE(node_at(s.pipeline, block_path(0) + ".inner")->holds(tensor_role::buffer));
  CHECK_FALSE(s.pipeline.root()->holds(tensor_role::parameter));
}

TEST_CASE("a tensor is described by object, storage, strides and offset", "[torch][tree]") {
  auto module = std::make_shared<Module>();
  auto base = at::zeros({4, 4});
  module->register_buffer("base", base);
  module->register_buffer("same", base);
  module->register_buffer("view", base.narrow(0, 2, 1).expand({3, 4}));
  module->register_buffer("complex", at::zeros({2}, at::kComplexFloat).slice(0, 1));
  module->register_buffer("meta", at::empty({2}, at::device(at::kMeta)));
  module->register_buffer("scalar", at::scalar_tensor(1));
  torch_pipeline pipeline({.type_name = "test", .components = {{"dit", module}}});

  const auto tensors = node_at(pipeline, "dit")->tensors();

  CHECK(tensors[0].identity == tensors[1].identity);
  CHECK(tensors[0].identity != tensors[2].identity);
  CHECK(tensors[0].storage == tensors[2].storage);
  CHECK(tensors[0].storage_bytes == 64);
  CHECK(tensors[2].strides == std::vector<std::int64_t>{0, 1});
  CHECK(tensors[2].storage_offset == 8);
  CHECK(tensors[3].type == dtype::f32);
  CHECK(tensors[3].shape == std::vector<std::int64_t>{1, 2});
  CHECK(tensors[3].strides == std::vector<std::int64_t>{2, 1});
  CHECK(tensors[3].storage_offset == 2);
  CHECK(tensors[4].meta);
  CHECK(tensors[4].storage == object_id{});
  CHECK(tensors[5].shape.empty());
}

TEST_CASE("a tensor that cannot be moved is refused by name", "[torch][tree]") {
  auto module = std::make_shared<Module>();
  module->register_buffer("sparse", at::eye(3).to_sparse());
  torch_pipeline pipeline({.type_name = "test", .components = {{"dit", module}}});

  CHECK_THROWS_WITH(node_at(pipeline, "dit")->tensors(), Catch::Contains("tensor 'sparse'"));
}

TEST_CASE("lists are told from modules that hold children", "[torch][tree]") {
  auto model = std::make_shared<toy_model>();
  model->register_module("modules", std::make_shared<torch::nn::ModuleListImpl>());
  model->register_module("sequence", std::make_shared<torch::nn::SequentialImpl>());
  torch_pipeline pipeline({.type_name = "test", .components = {{"dit", model}}});

  CHECK(node_at(pipeline, "dit.blocks")->is_list());
  CHECK(node_at(pipeline, "dit.modules")->is_list());
  CHECK(node_at(pipeline, "dit.sequence")->is_list());
  CHECK_FALSE(node_at(pipeline, "dit")->is_list());
  CHECK_FALSE(node_at(pipeline, "dit.blocks.0")->is_list());
  CHECK(node_at(pipeline, "dit.blocks")->children().size() == 3);
}

TEST_CASE("a module reached by two paths is one", "[torch][tree]") {
  auto model = std::make_shared<toy_model>();
  auto& first = *(*model->blocks)[0];
  model->register_module("alias", first.inner);
  torch_pipeline pipeline({.type_name = "test", .components = {{"dit", model}}});

  CHECK(node_at(pipeline, "dit.alias")->identity() ==
        node_at(pipeline, "dit.blocks.0.inner")->identity());
  CHECK(node_at(pipeline, "dit.alias")->type_name() == "torch::nn::LinearImpl");
}

TEST_CASE("an attribute is a module, null, something else, or missing", "[torch][tree]") {
  streamed s;
  s.block(0).register_module("absent", std::shared_ptr<Module>());
  s.block(0).scale = at::Tensor();
  const auto block = node_at(s.pipeline, block_path(0));

  CHECK(block->attribute("inner") == attribute_kind::module);
  CHECK(block->attribute("bias") == attribute_kind::other);
  CHECK(block->attribute("order") == attribute_kind::other);
  CHECK(block->attribute("absent") == attribute_kind::null);
  CHECK(block->attribute("scale") == attribute_kind::missing);
  CHECK(block->children().size() == 1);
  CHECK(block->attribute("nothing") == attribute_kind::missing);
  CHECK(s.pipeline.root()->attribute("transformer") == attribute_kind::module);
  CHECK(s.pipeline.root()->attribute("vae") == attribute_kind::missing);
}

TEST_CASE("what a parked block throws becomes a failure with its name", "[torch][failure]") {
  streamed s;
  failure reason;

  try {
    static_cast<void>(s.block(2).forward(s.input, false));
  } catch (const std::exception& error) {
    reason = failure_of(error);
  }

  CHECK(reason.code == errc::not_resident);
  CHECK(reason.block == "transformer.blocks.2");
}

TEST_CASE("other errors become failures of one line", "[torch][failure]") {
  failure reason;
  try {
    static_cast<void>(at::ones({2}) + at::ones({3}));
  } catch (const std::exception& error) {
    reason = failure_of(error);
  }

  CHECK(reason.code == errc::internal);
  CHECK(reason.detail.starts_with("The size of tensor a (2) must match"));
  CHECK(reason.detail.find('\n') == std::string::npos);
  CHECK(failure_of(std::bad_alloc()).code == errc::out_of_host_memory);
  CHECK(failure_of(ferry_error({errc::busy, "b"})).code == errc::busy);
  CHECK(failure_of(std::runtime_error("one\ntwo")).detail == "one");
}

} // namespace
} // namespace ferry
