// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_pipeline.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <functional>

namespace {

using ferry::errc;
using ferry::wan_pipeline;
using ferry::test::pipeline_copy;
using json = nlohmann::json;

constexpr auto encoder_file = "text_encoder/model.safetensors";
constexpr auto norm = "encoder.final_layer_norm.weight";
constexpr auto gate = "encoder.block.3.layer.1.DenseReluDense.wi_0.weight";

void rename(json& header, const std::string& from, const std::string& to) {
  header[to] = header[from];
  header.erase(from);
}

struct damage {
  std::string file;
  pipeline_copy::edit change;
  errc code;
  std::string message;
};

damage each_damage() {
  return GENERATE(
      damage{encoder_file, [](json& h) { rename(h, norm, "other"); }, errc::invalid_checkpoint,
             "text_encoder has no tensor 'encoder.final_layer_norm.weight'; expected shape [32]"},
      damage{encoder_file, [](json& h) { h[gate]["shape"] = {32, 64}; }, errc::invalid_checkpoint,
             "text_encoder: tensor 'encoder.block.3.layer.1.DenseReluDense.wi_0.weight' has shape "
             "[32, 64]; expected [64, 32]"},
      damage{encoder_file, [](json& h) { rename(h, "shared.weight", "other"); },
             errc::invalid_checkpoint, "'shared.weight' or 'encoder.embed_tokens.weight'"},
      damage{"transformer/config.json", [](json& c) { c["num_layers"] = 8; },
             errc::invalid_checkpoint, "transformer has no tensor 'blocks.7."},
      damage{"transformer/config.json", [](json& c) { c.erase("ffn_dim"); },
             errc::invalid_checkpoint, "transformer/config.json: ffn_dim is missing"},
      damage{"transformer/config.json", [](json& c) { c["image_dim"] = 1280; }, errc::unsupported,
             "transformer/config.json: image_dim is 1280"},
      damage{"transformer_2/config.json", [](json& c) { c["in_channels"] = 36; },
             errc::invalid_checkpoint, "transformer_2.out_channels is 16; expected 36"},
      damage{"transformer/config.json", [](json& c) { c["text_dim"] = 64; },
             errc::invalid_checkpoint,
             "transformer.text_dim is 64; expected 32, the text_encoder.d_model"},
      damage{"text_encoder/config.json", [](json& c) { c["feed_forward_proj"] = "relu"; },
             errc::unsupported, "feed_forward_proj is \"relu\"; expected \"gated-gelu\""},
      damage{"scheduler/scheduler_config.json", [](json& c) { c["use_karras_sigmas"] = true; },
             errc::unsupported, "use_karras_sigmas is true"},
      damage{"vae/config.json", [](json& c) { c["z_dim"] = 48; }, errc::invalid_checkpoint,
             "vae/config.json: latents_mean is"},
      damage{"vae/config.json",
             [](json& c) {
               c["z_dim"] = 8;
               c["latents_mean"] = c["latents_std"] = {1, 1, 1, 1, 1, 1, 1, 1};
             },
             errc::invalid_checkpoint, "vae.z_dim is 8; expected 16, the transformer.in_channels"},
      damage{"vae/config.json", [](json& c) { c["is_residual"] = true; }, errc::unsupported,
             "vae/config.json: is_residual is true"},
      damage{"model_index.json", [](json& i) { i["_class_name"] = "FluxPipeline"; },
             errc::unsupported,
             "the pipeline is of the unknown class 'FluxPipeline'; known are WanPipeline"},
      damage{"model_index.json", [](json& i) { i["text_encoder"][1] = "LlamaModel"; },
             errc::unsupported,
             "text_encoder is of the unknown class 'LlamaModel'; known are WanPipeline, "
             "FlowMatchEulerDiscreteScheduler, UMT5EncoderModel, WanTransformer3DModel, "
             "AutoencoderKLWan"},
      damage{"model_index.json", [](json& i) { i["transformer"] = {nullptr, nullptr}; },
             errc::invalid_checkpoint, "transformer is missing; expected a WanTransformer3DModel"},
      damage{"model_index.json", [](json& i) { i.erase("boundary_ratio"); },
             errc::invalid_checkpoint, "boundary_ratio is missing"});
}

} // namespace

TEST_CASE("a damaged pipeline directory is refused with what is wrong with it") {
  const auto damage = each_damage();
  const pipeline_copy copy{"wan-dual-tiny"};
  if (damage.file == encoder_file) {
    copy.change_header(damage.file, damage.change);
  } else {
    copy.change_json(damage.file, damage.change);
  }

  const auto loaded = wan_pipeline::load(copy.path());

  REQUIRE(!loaded);
  CHECK(loaded.error().code == damage.code);
  CHECK_THAT(loaded.error().detail, Catch::Contains(damage.message));
}

TEST_CASE("where several tensors are missing, the first is named and the rest counted") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header(encoder_file, [](json& header) {
    rename(header, norm, "other");
    rename(header, gate, "another");
  });

  const auto loaded = wan_pipeline::load(copy.path());

  REQUIRE(!loaded);
  CHECK_THAT(loaded.error().detail, Catch::Contains(gate) && Catch::EndsWith("(and 1 more)"));
}

TEST_CASE("a component that the family does not have is refused") {
  const pipeline_copy copy{"wan-tiny"};
  std::filesystem::create_directory(copy.path() / "image_encoder");
  copy.change_json("model_index.json", [](json& index) {
    index["image_encoder"] = {"transformers", "CLIPVisionModel"};
  });

  const auto loaded = wan_pipeline::load(copy.path());

  REQUIRE(!loaded);
  CHECK(loaded.error().code == errc::unsupported);
  CHECK_THAT(loaded.error().detail,
             Catch::Contains("image_encoder is of the unknown class 'CLIPVisionModel'"));
}

TEST_CASE("the encoder's embedding may have the name that older versions gave it") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header(encoder_file, [](json& header) {
    rename(header, "shared.weight", "encoder.embed_tokens.weight");
  });

  CHECK(wan_pipeline::load(copy.path()));
}

TEST_CASE("a tensor that no module uses is passed over") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header(encoder_file, [](json& header) {
    header["lm_head.weight"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  });

  CHECK(wan_pipeline::load(copy.path()));
}

TEST_CASE("a pipeline without a decoder takes the family's scale of latents") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("model_index.json", [](json& index) { index.erase("vae"); });

  const auto loaded = wan_pipeline::load(copy.path());

  REQUIRE(loaded);
  CHECK(loaded->limits().pixels_per_latent == 8);
  CHECK(loaded->limits().frames_per_latent == 4);
}

TEST_CASE("a decoder's weights are checked like those of the others") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header("vae/diffusion_pytorch_model.safetensors", [](json& header) {
    rename(header, "decoder.up_blocks.1.upsamplers.0.time_conv.bias", "other");
  });

  const auto loaded = wan_pipeline::load(copy.path());

  REQUIRE(!loaded);
  CHECK(loaded.error().code == errc::invalid_checkpoint);
  CHECK_THAT(loaded.error().detail,
             Catch::Contains("vae has no tensor 'decoder.up_blocks.1.upsamplers.0.time_conv.bias'; "
                             "expected shape [32]"));
}
