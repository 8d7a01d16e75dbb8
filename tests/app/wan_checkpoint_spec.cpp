// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "wan_checkpoint.hpp"

#include <ferry/offload/checkpoint.hpp>

#include "checkpoint_shapes.hpp"
#include "support/catch.hpp"

#include <map>
#include <string>
#include <vector>

namespace ferry {
namespace {

using shapes = std::map<std::string, std::vector<std::int64_t>>;

const wan_shape tiny = {.blocks = 7,
                        .hidden = 48,
                        .head_dim = 24,
                        .ffn = 96,
                        .denoisers = 1,
                        .text_blocks = 5,
                        .text_hidden = 32,
                        .text_head_dim = 8,
                        .text_heads = 4,
                        .text_ffn = 64,
                        .vocabulary = 256,
                        .vae = {.width = 8, .multipliers = {1, 2, 2, 2}, .residual_blocks = 1},
                        .type = dtype::f32};

shapes saved_by_diffusers(const char* component) {
  const auto checkpoint =
      component_checkpoint::open(std::string(FERRY_TEST_DATA "/wan-tiny/") + component);
  REQUIRE(checkpoint);
  shapes all;
  for (const auto* tensor : (*checkpoint)->tensors())
    all.emplace(tensor->name, tensor->shape);
  return all;
}

shapes shapes_of(const std::vector<tensor_declaration>& tensors) {
  shapes all;
  for (const auto& tensor : tensors)
    all.emplace(tensor.name, tensor.shape);
  return all;
}

TEST_CASE("a denoiser has the tensors that diffusers saves", "[app][wan_checkpoint]") {
  CHECK(shapes_of(wan_denoiser_tensors(tiny)) == saved_by_diffusers("transformer"));
}

TEST_CASE("an encoder has the tensors that transformers saves", "[app][wan_checkpoint]") {
  CHECK(shapes_of(wan_encoder_tensors(tiny)) == saved_by_diffusers("text_encoder"));
}

TEST_CASE("an autoencoder has the tensors that diffusers saves", "[app][wan_checkpoint]") {
  CHECK(shapes_of(wan_vae_tensors(tiny.vae, tiny.type)) == saved_by_diffusers("vae"));
}

TEST_CASE("an autoencoder of the real width has its 127 million parameters",
          "[app][wan_checkpoint]") {
  checkpoint_options options;
  options.no_vae = true;
  const auto without = wan_shape_of(options);
  options.no_vae = false;
  options.vae_width = 96;
  const auto with = wan_shape_of(options);

  REQUIRE((with && without));
  const auto parameters = static_cast<double>(weight_bytes(plan_checkpoint(*with)) -
                                              weight_bytes(plan_checkpoint(*without))) /
                          2;
  CHECK(parameters == Approx(126.9e6).epsilon(0.001));
}

TEST_CASE("presets have the parameters of the real denoisers", "[app][wan_checkpoint]") {
  const auto [preset, least, most] = GENERATE(table<std::string, double, double>({
      {"wan-1.3b", 1.3e9, 1.5e9},
      {"wan-14b", 14.0e9, 14.5e9},
  }));
  checkpoint_options options;
  options.preset = preset;

  const auto shape = wan_shape_of(options);

  REQUIRE(shape);
  const auto parameters = static_cast<double>(weight_bytes(plan_checkpoint(*shape))) / 2;
  CHECK(parameters > least);
  CHECK(parameters < most);
}

TEST_CASE("a full encoder has its 5.7 billion parameters", "[app][wan_checkpoint]") {
  checkpoint_options options;
  options.full_encoder = true;

  const auto shape = wan_shape_of(options);

  REQUIRE(shape);
  CHECK(static_cast<double>(weight_bytes(plan_checkpoint(*shape))) / 2 ==
        Approx(5.7e9).epsilon(0.02));
}

TEST_CASE("a width given replaces that of the preset, and the feed-forward follows",
          "[app][wan_checkpoint]") {
  checkpoint_options options;
  options.preset = "wan-1.3b";
  options.hidden = 512;

  const auto shape = wan_shape_of(options);

  REQUIRE(shape);
  CHECK(shape->hidden == 512);
  CHECK(shape->ffn == 2048);
  CHECK(shape->blocks == 30);
}

} // namespace
} // namespace ferry
