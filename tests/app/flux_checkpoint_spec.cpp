// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "flux_checkpoint.hpp"

#include <ferry/offload/checkpoint.hpp>

#include "checkpoint_shapes.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace ferry {
namespace {

using shapes = std::map<std::string, std::vector<std::int64_t>>;

flux_shape tiny() {
  return {.double_blocks = 3,
          .single_blocks = 5,
          .hidden = 32,
          .head_dim = 16,
          .clip = {.blocks = 3, .hidden = 32, .ffn = 48, .positions = 16},
          .t5 = {.blocks = 4, .hidden = 32, .head_dim = 8, .heads = 4, .ffn = 64},
          .vae = {.width = 8,
                  .multipliers = {1, 2, 2},
                  .residual_blocks = 1,
                  .latent_channels = 4,
                  .groups = 4},
          .type = dtype::f32};
}

shapes saved_by_diffusers(const std::string& component) {
  const auto checkpoint = component_checkpoint::open(FERRY_TEST_DATA "/flux-tiny/" + component);
  REQUIRE(checkpoint);
  shapes all;
  for (const auto* tensor : (*checkpoint)->tensors())
    all.emplace(tensor->name, tensor->shape);
  return all;
}

const planned_component& component_of(const checkpoint_plan& plan, const std::string& name) {
  for (const auto& component : plan.components)
    if (component.name == name)
      return component;
  FAIL("the plan has no " + name);
  std::abort();
}

double parameters(const std::vector<tensor_declaration>& tensors) {
  std::uint64_t elements = 0;
  for (const auto& tensor : tensors)
    elements += tensor.bytes() / element_size(tensor.type);
  return static_cast<double>(elements);
}

flux_shape chosen(const checkpoint_options& options) {
  const auto shape = flux_shape_of(options);
  REQUIRE(shape);
  return *shape;
}

TEST_CASE("each component of FLUX has the tensors that diffusers saves", "[app][flux_checkpoint]") {
  const auto name =
      GENERATE(as<std::string>(), "text_encoder", "text_encoder_2", "transformer", "vae");

  const auto plan = plan_checkpoint(tiny());

  shapes planned;
  for (const auto& tensor : component_of(plan, name).tensors)
    planned.emplace(tensor.name, tensor.shape);
  CHECK(planned == saved_by_diffusers(name));
}

TEST_CASE("the axes of a position share a head's channels as FLUX has them",
          "[app][flux_checkpoint]") {
  const auto [head_dim, axes] = GENERATE(table<std::int64_t, std::vector<std::int64_t>>(
      {{128, {16, 56, 56}}, {16, {4, 6, 6}}, {6, {2, 2, 2}}, {8, {4, 2, 2}}}));
  auto shape = tiny();
  shape.hidden = head_dim;
  shape.head_dim = head_dim;

  const auto plan = plan_checkpoint(shape);

  CHECK(component_of(plan, "transformer").config["axes_dims_rope"] == axes);
}

TEST_CASE("the preset of FLUX has the parameters of the real denoiser", "[app][flux_checkpoint]") {
  checkpoint_options options;
  options.family = "flux";
  options.preset = "flux-dev";

  CHECK(parameters(flux_denoiser_tensors(chosen(options))) == 11'901'408'320.0);
}

TEST_CASE("full encoders of FLUX have their real sizes", "[app][flux_checkpoint]") {
  checkpoint_options options;
  options.family = "flux";
  options.full_encoder = true;

  const auto shape = chosen(options);

  CHECK(parameters(clip_tensors(shape.clip, shape.type)) == 123'060'480.0);
  CHECK(parameters(t5_tensors(shape.t5, shape.type)) == 4'762'310'656.0);
}

TEST_CASE("an autoencoder of FLUX's real width has its 84 million parameters",
          "[app][flux_checkpoint]") {
  checkpoint_options options;
  options.family = "flux";
  options.vae_width = 128;

  const auto shape = chosen(options);

  CHECK(shape.vae.groups == 32);
  CHECK(parameters(flux_vae_tensors(shape.vae, shape.type)) == 83'819'683.0);
}

TEST_CASE("FLUX has two single blocks for each double one unless told otherwise",
          "[app][flux_checkpoint]") {
  checkpoint_options options;
  options.family = "flux";
  options.blocks = 4;

  CHECK(chosen(options).single_blocks == 8);

  options.single_blocks = 1;

  CHECK(chosen(options).single_blocks == 1);
}

} // namespace
} // namespace ferry
