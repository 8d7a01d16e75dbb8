// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "field_cases/torch/streamed.hpp"

#include <chrono>
#include <optional>

namespace ferry {
namespace {

using namespace test;
using namespace std::chrono_literals;

/// Scales by a tensor that is a plain member or, if asked to, a registered buffer.
struct scaling_block : block, declares_tensors, declares_transient_buffers {
  scaling_block(int seed, bool registers) : registered(registers) {
    weight = register_parameter("weight", values({width, width}, seed));
    identity = values({width}, seed + 1);
    if (registers)
      register_buffer("identity", identity);
  }
  at::Tensor forward(const at::Tensor& x) override { return at::linear(x * identity, weight); }
  std::vector<std::pair<std::string, at::Tensor>> unregistered_tensors() const override {
    if (registered)
      return {};
    return {{"identity", identity}};
  }
  std::vector<std::string> transient_buffers() const override { return {"identity"}; }

  bool registered;
  at::Tensor weight, identity;
};

toy with_a_scaling_block(bool registers) {
  toy model({"blocks"});
  model.add<toy_block>(0, 0);
  model.add<scaling_block>(0, 1, registers);
  model.add<toy_block>(0, 2);
  return model;
}

TEST_CASE("a tensor that its module does not register is reported by path", "[field_cases][B24]") {
  auto model = with_a_scaling_block(false);
  streamed run(model, simulated());

  const auto enabled = run.enable();

  REQUIRE_FALSE(enabled);
  CHECK_THAT(enabled.error().detail, Catch::Contains("transformer.blocks.1.identity"));
  CHECK(run.ordinary());
}

TEST_CASE("the same tensor as a buffer that checkpoints lack follows its block",
          "[field_cases][B24]") {
  auto model = with_a_scaling_block(true);
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());

  CHECK(run.bit_equal());
}

TEST_CASE("two block lists are one ring, and what lies beside them is resident",
          "[field_cases][B25]") {
  toy model({"double", "single"});
  for (int i = 0; i != 4; ++i)
    model.add<toy_block>(static_cast<std::size_t>(i / 2), i);
  auto gpu = simulated();
  streamed run(model, gpu);

  REQUIRE(run.enable(compact(dit_only)));

  CHECK(lies_on(*gpu, model.transformer->pos));
  CHECK(lies_on(*gpu, model.transformer->freqs));
  CHECK(run.bit_equal());
  CHECK(run.state().components.at("transformer").blocks == 4);
  CHECK(run.state().components.at("transformer").resident_blocks == 0);
  CHECK(run.state().blocking_loads == 0);
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("blocks that are declared by an alias of a nested list are not also resident",
          "[field_cases][B26]") {
  toy model({"layers"});
  for (int i = 0; i != 8; ++i)
    model.add<toy_block>(0, i);
  auto inner = model.transformer->register_module("inner", std::make_shared<Module>());
  inner->register_module("layers", model.transformer->lists[0]);
  inner->register_parameter("gate", values({width}, 9));
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable(compact(dit_only)));

  // Beside the blocks: pos, freqs and gate; the encoder's two weights and biases; the decoder.
  constexpr std::size_t residents = 3 * 256 + 2 * (1024 + 256) + 1024;
  CHECK(run.counters().peak_device_bytes == residents + 2 * run.state().slot_bytes);
  CHECK(run.bit_equal());
}

TEST_CASE("an encoder of any name is found by its declared role", "[field_cases][B27]") {
  toy model;
  model.encoder_name = "words";
  model.roles->encoders = {"words"};
  model.plan.encoder_block_attrs = {{"words", {"layers"}}};
  model.plan.encoder_component_types = {{"words", "text_encoder"}};
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());

  CHECK(run.state().components.at("words").blocks == 2);
  CHECK(run.bit_equal());
}

TEST_CASE("a component without a role is refused by name", "[field_cases][B27]") {
  toy model;
  model.encoder_name = "words";
  model.roles.reset();
  model.plan.encoder_block_attrs.clear();
  streamed run(model, simulated());

  const auto enabled = run.enable(compact(dit_only));

  REQUIRE_FALSE(enabled);
  CHECK_THAT(enabled.error().detail, Catch::Contains("the role of words is unknown"));
  CHECK(run.ordinary());
}

struct root_only_block : block {
  explicit root_only_block(int seed) { scale = register_parameter("scale", values({width}, seed)); }
  at::Tensor forward(const at::Tensor& x) override { return x * scale; }

  at::Tensor scale;
};

TEST_CASE("a module whose only parameter is at its root is moved", "[field_cases][B29]") {
  toy model({"blocks"});
  for (int i = 0; i != 3; ++i)
    model.add<root_only_block>(0, i);
  auto gpu = simulated();
  streamed run(model, gpu);

  REQUIRE(run.enable());

  CHECK(lies_on(*gpu, model.vae->weight));
  CHECK(run.bit_equal());
}

/// Adds a layer of the denoiser to the denoiser's input.
struct side_network : Module {
  explicit side_network(std::shared_ptr<linear_block> layer) : borrowed(std::move(layer)) {}
  at::Tensor forward(const at::Tensor& x) { return x + borrowed->forward(x); }

  std::shared_ptr<linear_block> borrowed;
};

struct lending_block : toy_block {
  explicit lending_block(int seed) : toy_block(seed) {
    embed = register_module("embed", std::make_shared<linear_block>(seed));
  }
  at::Tensor forward(const at::Tensor& x) override { return toy_block::forward(embed->forward(x)); }

  std::shared_ptr<linear_block> embed;
};

struct lending_toy : toy {
  lending_toy() {
    lender = add<lending_block>(0, 4);
    side = std::make_shared<side_network>(lender->embed);
    control = [side = side](const at::Tensor& x) { return side->forward(x); };
  }

  std::shared_ptr<lending_block> lender;
  std::shared_ptr<side_network> side;
};

TEST_CASE("a layer that another component declares to borrow is there for both",
          "[field_cases][B32]") {
  lending_toy model;
  model.side->register_module("borrowed", model.lender->embed);
  model.beside = model.side;
  model.roles->residents = {"control"};
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());

  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
}

TEST_CASE("a layer that is borrowed undeclared fails with the name of its block",
          "[field_cases][B32]") {
  lending_toy model;
  streamed run(model, simulated());
  REQUIRE(run.enable());

  CHECK_THROWS_WITH(model.generate(),
                    Catch::Contains("block 'transformer.blocks.4' is not on the device"));

  REQUIRE(run.disable());
  CHECK(run.ordinary());
}

/// Brings its weight to the device itself.
struct staged_decoder : decoder, stages_itself {
  explicit staged_decoder(std::shared_ptr<device> target) : gpu(std::move(target)) {}

  void load_to_device() override {
    place.emplace(*gpu, memory_kind::device, home.nbytes());
    stream copies(*gpu, "decoder");
    copies.copy({.target = place->bytes(),
                 .source = {static_cast<const std::byte*>(home.data_ptr()), home.nbytes()},
                 .from = memory_kind::pageable});
    copies.synchronize({"decoder staged"});
    weight.set_data(at::from_blob(place->bytes().data(), home.sizes()));
  }
  void offload_to_cpu() override {
    weight.set_data(home);
    place.reset();
  }

  std::shared_ptr<device> gpu;
  at::Tensor home = weight.detach();
  std::optional<memory_block> place;
};

TEST_CASE("a component that stages itself is left alone, and loaded once a lease",
          "[field_cases][B34]") {
  toy model;
  auto gpu = simulated();
  auto vae = std::make_shared<staged_decoder>(gpu);
  model.vae = vae;
  model.plan.on_demand_component_paths = {"vae"};
  streamed run(model, gpu);
  const auto latents = values({tokens, width}, 1);
  const auto expected = model.decode(latents);

  legacy_options layerwise;
  layerwise.enable_layerwise_offload = true;
  REQUIRE(run.enable(resolve_config(std::nullopt, layerwise).value().config));
  CHECK(run.state().components.at("vae").on_demand);
  CHECK_FALSE(lies_on(*gpu, vae->weight));
  const auto before = gpu->counters().h2d_bytes;
  vae->load_to_device();
  for (int i = 0; i != 3; ++i)
    CHECK(same_bytes(model.decode(latents), expected));
  vae->offload_to_cpu();

  CHECK(gpu->counters().h2d_bytes - before == vae->home.nbytes());
}

struct half_block : block {
  explicit half_block(int seed) {
    weight = register_parameter("weight", values({width, width}, seed).to(at::kBFloat16), false);
  }
  at::Tensor forward(const at::Tensor& x) override {
    return at::linear(x.to(at::kBFloat16), weight).to(at::kFloat);
  }

  at::Tensor weight;
};

TEST_CASE("a parked denoiser says where and in what type it computes, and its shapes",
          "[field_cases][B35]") {
  toy model({"blocks"});
  for (int i = 0; i != 4; ++i)
    model.add<half_block>(0, i);
  streamed run(model, simulated());

  REQUIRE(run.enable());

  const auto& parked = model.block_at<half_block>(3).weight;
  CHECK(run.pipeline().compute_device("transformer") == at::Device(at::kCPU));
  CHECK(run.pipeline().compute_dtype("transformer") == at::kBFloat16);
  CHECK(parked.sizes() == at::IntArrayRef({width, width}));
  CHECK(parked.numel() == width * width);
  CHECK(parked.scalar_type() == at::kBFloat16);
  CHECK_THROWS_WITH(parked.sum(), Catch::Contains("is not on the device"));
}

/// Its embedding and its head are one tensor, or two that are equal.
struct two_ended_encoder : text_encoder {
  explicit two_ended_encoder(bool tied) {
    embed = register_parameter("embed", values({width, width}, 12));
    auto twin = register_module("head", std::make_shared<Module>());
    head = twin->register_parameter("weight", tied ? embed : embed.detach().clone());
  }
  at::Tensor forward(at::Tensor x) override {
    return at::linear(text_encoder::forward(at::matmul(x, embed)), head);
  }

  at::Tensor embed, head;
};

std::size_t resident_bytes(toy& model) {
  streamed run(model, simulated());
  REQUIRE(run.enable());
  return run.state().resident_bytes;
}

void write(at::Tensor tensor, double value) {
  const at::NoGradGuard no_gradients;
  tensor.fill_(value);
}

TEST_CASE("an embedding tied to the head beside streamed layers is moved once and stays tied",
          "[field_cases][B51]") {
  toy model;
  toy untied;
  auto encoder = std::make_shared<two_ended_encoder>(true);
  model.encoder = encoder;
  untied.encoder = std::make_shared<two_ended_encoder>(false);
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());
  CHECK(run.bit_equal());
  CHECK(run.state().resident_bytes == resident_bytes(untied) - encoder->embed.nbytes());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
  write(encoder->embed, 3);

  CHECK(encoder->head.min().item<float>() == 3.F);
}

TEST_CASE("a weight that two streamed blocks share is resident and stays tied",
          "[field_cases][B51]") {
  toy model({"blocks"});
  auto first = model.add<linear_block>(0, 0);
  model.add<toy_block>(0, 1);
  model.add<toy_block>(0, 2);
  auto last = model.add<linear_block>(0, 3, first->weight);
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());
  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
  write(first->weight, 3);

  CHECK(last->weight.min().item<float>() == 3.F);
}

TEST_CASE("a tie between two components is charged once and survives every move",
          "[field_cases][B52]") {
  toy model;
  toy untied;
  auto encoder = std::make_shared<two_ended_encoder>(false);
  untied.encoder = model.encoder = encoder;
  model.transformer->register_parameter("embed", encoder->embed);
  untied.transformer->register_parameter("embed", encoder->embed.detach().clone());
  const auto expected = resident_bytes(untied) - encoder->embed.nbytes();
  streamed run(model, device_called(GENERATE("sim", "host")));

  for (int i = 0; i != 2; ++i) {
    REQUIRE(run.enable());
    REQUIRE(run.state().resident_bytes == expected);
    REQUIRE(run.bit_equal());
    REQUIRE(run.disable());
  }
  write(encoder->embed, 3);

  CHECK(model.transformer->named_parameters()["embed"].min().item<float>() == 3.F);
}

/// Has parameters of its own before and after its blocks, and a norm between them.
struct normed_denoiser : denoiser {
  explicit normed_denoiser(bool affine) : denoiser({"blocks"}) {
    in = register_parameter("in", values({width, width}, 22));
    out = register_parameter("out", values({width, width}, 23));
    if (affine)
      scale = register_parameter("scale", values({width}, 24));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& text) override {
    const auto y = denoiser::forward(at::linear(x, in), text);
    return at::linear(at::layer_norm(y, {width}, scale), out);
  }

  at::Tensor in, out, scale;
};

TEST_CASE("parameters that belong to no block are there however slow copies are",
          "[field_cases][B06]") {
  toy model({"blocks"});
  model.transformer = std::make_shared<normed_denoiser>(GENERATE(false, true));
  for (int i = 0; i != 4; ++i)
    model.add<toy_block>(0, i);
  sim_options slow_copies;
  slow_copies.latency = 10ms;
  slow_copies.compute = GENERATE(as<nanoseconds>{}, 1ns, 100ms);
  auto gpu = std::make_shared<sim_device>(slow_copies);
  streamed run(model, gpu);

  REQUIRE(run.enable());

  CHECK(run.bit_equal());
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("after a cancelled request a block whose weights were moved by hand makes the same bits",
          "[field_cases][B63]") {
  toy model;
  streamed run(model, device_called(GENERATE("sim", "host")));
  REQUIRE(run.enable());
  const auto request = run.control().begin_request();
  REQUIRE(request);
  REQUIRE(run.control().cancel_request(*request));
  CHECK_THROWS_WITH(model.generate(), Catch::Contains("cancelled"));
  REQUIRE(run.control().end_request());

  model.block_at<toy_block>(0).matrix.set_data(values({width, width}, 0));

  CHECK(run.bit_equal());
  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
}

} // namespace
} // namespace ferry
