// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_decoder.hpp"

#include <ferry/torch/call.hpp>

#include "models/component_loading.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>

namespace {

using ferry::failure;
using ferry::upsampling;
using ferry::wan_decoder;
using ferry::wan_decoder_config;
using ferry::test::golden;
using ferry::test::pipeline_copy;
using json = nlohmann::json;

wan_decoder_config config_in(const std::filesystem::path& pipeline,
                             std::vector<failure>& problems) {
  ferry::component_config file{pipeline / "vae" / "config.json", problems};
  return ferry::read_wan_decoder_config(file);
}

std::shared_ptr<wan_decoder> load(const std::filesystem::path& pipeline) {
  std::vector<failure> problems;
  const auto config = config_in(pipeline, problems);
  auto decoder =
      ferry::load_component<wan_decoder>(pipeline, "vae", config, std::nullopt, problems);
  REQUIRE(problems.empty());
  return decoder;
}

at::Tensor some_latents(std::int64_t frames) {
  return at::linspace(-2, 2, 16 * frames * 4 * 6, at::kFloat).sin().view({1, 16, frames, 4, 6});
}

struct method_hook : ferry::hook {
  void pre_forward(const ferry::hook_call& call, ferry::tensor_refs) override {
    method = call.method;
  }
  std::string method;
};

} // namespace

TEST_CASE("the first latent frame becomes one picture and each other four") {
  const auto frames = GENERATE(as<std::int64_t>(), 1, 2, 3);

  const auto pictures = load(golden("wan-tiny"))->decode(some_latents(frames));

  CHECK(pictures.sizes() == at::IntArrayRef{4 * frames - 3, 3, 32, 48});
  CHECK(pictures.scalar_type() == at::kFloat);
  CHECK(pictures.is_contiguous());
}

TEST_CASE("a picture does not depend on latents that come later") {
  const auto decoder = load(golden("wan-tiny"));
  const auto latents = some_latents(3);

  const auto all = decoder->decode(latents);
  const auto beginning = decoder->decode(latents.narrow(2, 0, 2));

  CHECK(at::allclose(beginning, all.narrow(0, 0, 5), 0, 1e-5));
}

TEST_CASE("a picture depends on latents that came before") {
  const auto decoder = load(golden("wan-tiny"));
  const auto latents = some_latents(2);
  auto changed = latents.clone();
  changed.select(2, 0).zero_();

  const auto pictures = decoder->decode(latents);

  CHECK(!at::allclose(pictures[4], decoder->decode(changed)[4], 0, 1e-3));
}

TEST_CASE("pictures stay within their range") {
  const auto pictures = load(golden("wan-tiny"))->decode(some_latents(2) * 50);

  CHECK(pictures.max().item<float>() == 1);
  CHECK(pictures.min().item<float>() == -1);
}

TEST_CASE("the encoding half of an autoencoder may be missing") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header("vae/diffusion_pytorch_model.safetensors", [](json& header) {
    json kept;
    for (const auto& [name, tensor] : header.items()) {
      const bool encodes = name.starts_with("encoder.") || name.starts_with("quant_conv.");
      kept[encodes ? "other." + name : name] = tensor;
    }
    header = kept;
  });

  CHECK(load(copy.path())->parameters().size() == 86);
}

TEST_CASE("hooks see decoding under its name") {
  const auto decoder = load(golden("wan-tiny"));
  const auto seen = std::make_shared<method_hook>();
  decoder->hooks().add(*decoder, "seen", seen);

  const auto pictures =
      ferry::call_method(*decoder, "decode", &wan_decoder::decode, some_latents(1));

  CHECK(seen->method == "decode");
  CHECK(at::equal(pictures, decoder->decode(some_latents(1))));
}

TEST_CASE("the stages of a decoder say how many pixels and frames a latent stands for") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("vae/config.json", [](json& config) {
    config["dim_mult"] = {1, 2, 4};
    config["temperal_downsample"] = {false, true};
    config["scale_factor_spatial"] = 4;
    config["scale_factor_temporal"] = 2;
  });
  std::vector<failure> problems;

  const auto config = config_in(copy.path(), problems);

  CHECK(problems.empty());
  CHECK(config.pixels_per_latent() == 4);
  CHECK(config.frames_per_latent() == 2);
  CHECK(config.widths == std::vector<std::int64_t>{32, 16, 8});
  CHECK(config.upsamplings.front() == upsampling::space_and_time);
  CHECK(config.upsamplings.back() == upsampling::space);
}

TEST_CASE("a decoder that is not computed here is refused with the field that says so") {
  const auto [field, value, expected] = GENERATE(table<std::string, json, std::string>({
      {"is_residual", true, "is_residual is true; expected null or false"},
      {"patch_size", 2, "patch_size is 2; expected null or false"},
      {"attn_scales", {0.5}, "attn_scales is [0.5]; expected []"},
      {"out_channels", 12, "out_channels is 12; expected 3"},
      {"scale_factor_spatial", 16, "scale_factor_spatial is 16; expected 8"},
      {"scale_factor_temporal", 1, "scale_factor_temporal is 1; expected 4"},
      {"base_dim", 7, "base_dim is 7; expected an even number"},
      {"decoder_base_dim", 9, "decoder_base_dim is 9; expected an even number"},
      {"dim_mult", json::array(), "dim_mult is []; expected an array of 1 to 7, each an integer"},
      {"temperal_downsample", {true}, "[true]; expected an array of 3, each true or false"},
      {"latents_std", {1.0}, "latents_std is [1.0]; expected an array of 16, each a finite number"},
      {"latents_mean", nullptr, "latents_mean is missing"},
  }));
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("vae/config.json", [&](json& config) { config[field] = value; });
  std::vector<failure> problems;

  static_cast<void>(config_in(copy.path(), problems));

  REQUIRE(!problems.empty());
  CHECK_THAT(problems[0].detail, Catch::Contains(expected));
}
