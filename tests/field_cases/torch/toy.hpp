// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/component_interfaces.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry::test {

using torch::nn::Module;

inline constexpr std::int64_t width = 16;
inline constexpr std::int64_t tokens = 4;

/// Returns numbers that look random and are not.
inline at::Tensor values(at::IntArrayRef shape, int seed) {
  return (at::arange(c10::multiply_integers(shape), at::kFloat) * 1.7 + seed).sin().reshape(shape);
}

struct block : Module, hookable {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

using blocks = block_list<block>;

struct linear_block : block {
  explicit linear_block(int seed) : linear_block(seed, values({width, width}, seed)) {}
  linear_block(int seed, const at::Tensor& tied) {
    weight = register_parameter("weight", tied);
    bias = register_parameter("bias", values({width}, seed));
  }
  at::Tensor forward(const at::Tensor& x) override { return at::tanh(at::linear(x, weight, bias)); }

  at::Tensor weight, bias;
};

/// A matrix, a bias, a norm's scale, a buffer of checkpoints and one that they leave out.
struct toy_block : block, declares_transient_buffers {
  explicit toy_block(int seed) {
    matrix = register_parameter("matrix", values({width, width}, seed));
    bias = register_parameter("bias", values({width}, seed + 1));
    scale = register_parameter("scale", values({width}, seed + 2));
    shift = register_buffer("shift", values({width}, seed + 3));
    mask = register_buffer("mask", values({width}, seed + 4) > 0.8);
  }
  at::Tensor forward(const at::Tensor& x) override {
    const auto normed = at::layer_norm(x, {width}, scale) + shift;
    return x + at::tanh(at::linear(normed, matrix, bias)).masked_fill(mask, 0.5);
  }
  std::vector<std::string> transient_buffers() const override { return {"mask"}; }

  at::Tensor matrix, bias, scale, shift, mask;
};

struct text_encoder : Module, hookable {
  text_encoder() {
    layers = register_module("layers", std::make_shared<blocks>());
    for (int i = 0; i != 2; ++i)
      layers->push_back(std::make_shared<linear_block>(10 + i));
  }
  virtual at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers)
      x = layer(x);
    return x;
  }

  std::shared_ptr<blocks> layers;
};

/// Runs its lists in order. Its blocks are added by whoever makes it.
struct denoiser : Module, hookable {
  explicit denoiser(const std::vector<std::string>& list_names) {
    pos = register_parameter("pos", values({tokens, width}, 20));
    freqs = register_buffer("freqs", values({width}, 21));
    for (const auto& name : list_names)
      lists.push_back(register_module(name, std::make_shared<blocks>()));
  }
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& text) {
    auto y = x + pos + text * freqs;
    for (const auto& list : lists)
      for (const auto& each : *list)
        y = each(y);
    return y;
  }

  at::Tensor pos, freqs;
  std::vector<std::shared_ptr<blocks>> lists;
};

struct decoder : Module, hookable {
  decoder() { weight = register_parameter("weight", values({width, width}, 30)); }
  at::Tensor decode(const at::Tensor& latents) { return at::linear(latents, weight); }

  at::Tensor weight;
};

/// A pipeline whose every part may be exchanged before it is described: an encoder of two linear
/// layers, a denoiser of four blocks that runs twice a step, and a decoder.
struct toy {
  toy() : toy({"blocks"}) {
    for (int i = 0; i != 4; ++i)
      add<toy_block>(0, i);
  }
  explicit toy(const std::vector<std::string>& list_names)
      : transformer(std::make_shared<denoiser>(list_names)) {
    plan.block_attrs["transformer"] = list_names;
  }

  template <class Block, class... Args>
  std::shared_ptr<Block> add(std::size_t list, Args&&... args) {
    auto made = std::make_shared<Block>(std::forward<Args>(args)...);
    transformer->lists.at(list)->push_back(made);
    return made;
  }
  template <class Block>
  Block& block_at(std::size_t i) const {
    return dynamic_cast<Block&>(*(*transformer->lists.front())[i]);
  }

  [[nodiscard]] torch_pipeline_description description() const {
    std::vector<torch_component> components{
        {encoder_name, encoder}, {"transformer", transformer}, {"vae", vae}};
    if (beside)
      components.push_back({"control", beside});
    return {.type_name = "test.toy",
            .components = std::move(components),
            .roles = roles,
            .plan = plan,
            .compute_device = compute_device};
  }

  [[nodiscard]] at::Tensor decode(const at::Tensor& latents) const {
    const c10::InferenceMode no_gradients;
    return call_method(*vae, "decode", &decoder::decode, latents);
  }
  [[nodiscard]] at::Tensor generate() const {
    const c10::InferenceMode no_gradients;
    const auto text = call(*encoder, values({tokens, width}, 40).to(compute_device));
    const auto negative = call(*encoder, values({tokens, width}, 41).to(compute_device));
    auto latents = values({tokens, width}, 42).to(compute_device);
    for (int step = 0; step != 3; ++step) {
      const auto input = control ? control(latents) : latents;
      const auto guided = call(*transformer, input, text);
      const auto unguided = call(*transformer, input, negative);
      latents = latents - (unguided + (guided - unguided) * 2) * 0.1;
    }
    return decode(latents);
  }

  std::string encoder_name = "text_encoder";
  std::shared_ptr<text_encoder> encoder = std::make_shared<text_encoder>();
  std::shared_ptr<denoiser> transformer;
  std::shared_ptr<decoder> vae = std::make_shared<decoder>();
  std::shared_ptr<Module> beside; ///< A component that is no part of the pipeline's usual ones.
  std::function<at::Tensor(const at::Tensor&)> control; ///< What changes the denoiser's input.
  std::optional<component_roles> roles =
      component_roles{.dits = {"transformer"}, .encoders = {"text_encoder"}, .vaes = {"vae"}};
  offload_plan plan{.encoder_block_attrs = {{"text_encoder", {"layers"}}}};
  at::Device compute_device = at::kCPU;
};

} // namespace ferry::test
