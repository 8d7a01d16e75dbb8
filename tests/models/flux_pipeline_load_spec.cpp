// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_pipeline.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

namespace {

using ferry::errc;
using ferry::flux_pipeline;
using ferry::test::pipeline_copy;
using json = nlohmann::json;

constexpr auto clip_file = "text_encoder/model.safetensors";
constexpr auto t5_file = "text_encoder_2/model.safetensors";
constexpr auto vae_file = "vae/diffusion_pytorch_model.safetensors";
constexpr auto bias_table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

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

damage each_damaged_weight() {
  return GENERATE(
      damage{clip_file, [](json& h) { rename(h, "final_layer_norm.weight", "other"); },
             errc::invalid_checkpoint,
             "text_encoder has no tensor 'final_layer_norm.weight'; expected shape [32]"},
      damage{t5_file, [](json& h) { rename(h, bias_table, "other"); }, errc::invalid_checkpoint,
             "text_encoder_2 has no tensor 'encoder.block.0.layer.0.SelfAttention."
             "relative_attention_bias.weight'; expected shape [32, 4]"},
      damage{vae_file, [](json& h) { rename(h, "decoder.conv_in.weight", "other"); },
             errc::invalid_checkpoint,
             "vae has no tensor 'decoder.conv_in.weight'; expected shape [16, 4, 3, 3]"},
      damage{vae_file, [](json& h) { h["decoder.conv_out.weight"]["shape"] = {8, 3, 3, 3}; },
             errc::invalid_checkpoint,
             "vae: tensor 'decoder.conv_out.weight' has shape [8, 3, 3, 3]; expected [3, 8, 3, "
             "3]"});
}

damage each_damaged_config() {
  return GENERATE(
      damage{"transformer/config.json", [](json& c) { c["num_layers"] = 4; },
             errc::invalid_checkpoint, "transformer has no tensor 'transformer_blocks.3."},
      damage{"transformer/config.json", [](json& c) { c["num_single_layers"] = 6; },
             errc::invalid_checkpoint, "transformer has no tensor 'single_transformer_blocks.5."},
      damage{"transformer/config.json", [](json& c) { c["axes_dims_rope"] = {4, 4, 6}; },
             errc::invalid_checkpoint,
             "axes_dims_rope is [4,4,6]; expected even numbers that add up to "
             "attention_head_dim, 16"},
      damage{"transformer/config.json", [](json& c) { c["axes_dims_rope"] = {5, 5, 6}; },
             errc::invalid_checkpoint, "axes_dims_rope is [5,5,6]; expected even numbers"},
      damage{"transformer/config.json", [](json& c) { c["patch_size"] = 2; }, errc::unsupported,
             "patch_size is 2; expected 1"},
      damage{"transformer/config.json", [](json& c) { c["out_channels"] = 8; },
             errc::invalid_checkpoint, "transformer.out_channels is 8; expected 16"},
      damage{"transformer/config.json", [](json& c) { c["pooled_projection_dim"] = 64; },
             errc::invalid_checkpoint,
             "transformer.pooled_projection_dim is 64; expected 32, the text_encoder.hidden_size"},
      damage{"transformer/config.json", [](json& c) { c["joint_attention_dim"] = 64; },
             errc::invalid_checkpoint,
             "transformer.joint_attention_dim is 64; expected 32, the text_encoder_2.d_model"},
      damage{"text_encoder/config.json", [](json& c) { c["hidden_act"] = "relu"; },
             errc::unsupported, "hidden_act is \"relu\"; expected \"quick_gelu\" or \"gelu\""},
      damage{"text_encoder/config.json", [](json& c) { c["num_attention_heads"] = 5; },
             errc::invalid_checkpoint,
             "hidden_size is 32; expected a multiple of num_attention_heads, 5"},
      damage{"vae/config.json", [](json& c) { c["latent_channels"] = 16; },
             errc::invalid_checkpoint, "vae.latent_channels is 16; expected 4"},
      damage{"vae/config.json", [](json& c) { c["norm_num_groups"] = 3; }, errc::invalid_checkpoint,
             "block_out_channels is [8,16,16]; expected multiples of norm_num_groups, 3"},
      damage{"vae/config.json", [](json& c) { c["up_block_types"][1] = "AttnUpDecoderBlock2D"; },
             errc::unsupported, "expected an array of \"UpDecoderBlock2D\""},
      damage{"vae/config.json", [](json& c) { c["use_post_quant_conv"] = true; },
             errc::invalid_checkpoint,
             "vae has no tensor 'post_quant_conv.weight'; expected shape [4, 4, 1, 1]"},
      damage{"vae/config.json", [](json& c) { c["shift_factor"] = "some"; },
             errc::invalid_checkpoint, "shift_factor is \"some\"; expected a finite number"},
      damage{"model_index.json", [](json& i) { i["text_encoder_2"][1] = "UMT5EncoderModel"; },
             errc::unsupported, "text_encoder_2 is of the unknown class 'UMT5EncoderModel'"},
      damage{"model_index.json", [](json& i) { i.erase("text_encoder_2"); },
             errc::invalid_checkpoint, "text_encoder_2 is missing; expected a T5EncoderModel"});
}

void check_refused(const pipeline_copy& copy, const damage& done) {
  const auto loaded = flux_pipeline::load(copy.path());

  REQUIRE(!loaded);
  CHECK(loaded.error().code == done.code);
  CHECK_THAT(loaded.error().detail, Catch::Contains(done.message));
}

} // namespace

TEST_CASE("a FLUX tensor that is missing or of another shape is refused by name") {
  const auto damage = each_damaged_weight();
  const pipeline_copy copy{"flux-tiny"};
  copy.change_header(damage.file, damage.change);

  check_refused(copy, damage);
}

TEST_CASE("a FLUX configuration that does not fit is refused with what is wrong with it") {
  const auto damage = each_damaged_config();
  const pipeline_copy copy{"flux-tiny"};
  copy.change_json(damage.file, damage.change);

  check_refused(copy, damage);
}
