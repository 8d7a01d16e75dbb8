// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "wan_checkpoint.hpp"

#include "t5_checkpoint.hpp"
#include "tensor_list.hpp"

#include <string>

namespace ferry {

namespace {

using nlohmann::json;

constexpr std::int64_t channels = 16;
constexpr std::int64_t frequencies = 256;
constexpr std::int64_t patch = 4; // 1 x 2 x 2

void add_attention(tensor_list& tensors, const std::string& path, std::int64_t width) {
  for (const auto* layer : {"to_q", "to_k", "to_v", "to_out.0"})
    tensors.linear(path + "." + layer, width, width);
  tensors.add(path + ".norm_q.weight", {width});
  tensors.add(path + ".norm_k.weight", {width});
}

t5_shape encoder_shape(const wan_shape& shape) {
  return {.kind = t5_shape::family::umt5,
          .blocks = shape.text_blocks,
          .hidden = shape.text_hidden,
          .head_dim = shape.text_head_dim,
          .heads = shape.text_heads,
          .ffn = shape.text_ffn,
          .vocabulary = shape.vocabulary};
}

json denoiser_config(const wan_shape& shape) {
  return {{"_class_name", "WanTransformer3DModel"},
          {"_diffusers_version", diffusers_version},
          {"added_kv_proj_dim", nullptr},
          {"attention_head_dim", shape.head_dim},
          {"cross_attn_norm", true},
          {"eps", 1e-6},
          {"ffn_dim", shape.ffn},
          {"freq_dim", frequencies},
          {"image_dim", nullptr},
          {"in_channels", channels},
          {"num_attention_heads", shape.hidden / shape.head_dim},
          {"num_layers", shape.blocks},
          {"out_channels", channels},
          {"patch_size", {1, 2, 2}},
          {"pos_embed_seq_len", nullptr},
          {"qk_norm", "rms_norm_across_heads"},
          {"rope_max_seq_len", 1024},
          {"text_dim", shape.text_hidden}};
}

} // namespace

std::vector<tensor_declaration> wan_denoiser_tensors(const wan_shape& shape) {
  const auto width = shape.hidden;
  tensor_list tensors(shape.type);
  tensors.add("patch_embedding.weight", {width, channels, 1, 2, 2});
  tensors.add("patch_embedding.bias", {width});
  tensors.linear("condition_embedder.time_embedder.linear_1", frequencies, width);
  tensors.linear("condition_embedder.time_embedder.linear_2", width, width);
  tensors.linear("condition_embedder.time_proj", width, 6 * width);
  tensors.linear("condition_embedder.text_embedder.linear_1", shape.text_hidden, width);
  tensors.linear("condition_embedder.text_embedder.linear_2", width, width);
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    const auto block = "blocks." + std::to_string(i);
    tensors.add(block + ".scale_shift_table", {1, 6, width});
    add_attention(tensors, block + ".attn1", width);
    tensors.add(block + ".norm2.weight", {width});
    tensors.add(block + ".norm2.bias", {width});
    add_attention(tensors, block + ".attn2", width);
    tensors.linear(block + ".ffn.net.0.proj", width, shape.ffn);
    tensors.linear(block + ".ffn.net.2", shape.ffn, width);
  }
  tensors.add("scale_shift_table", {1, 2, width});
  tensors.linear("proj_out", width, channels * patch);
  return tensors.take();
}

std::vector<tensor_declaration> wan_encoder_tensors(const wan_shape& shape) {
  return t5_tensors(encoder_shape(shape), shape.type);
}

checkpoint_plan plan_checkpoint(const wan_shape& shape) {
  checkpoint_plan plan;
  plan.class_name = "WanPipeline";
  plan.scheduler = flow_match_scheduler_config(3.0, false);
  plan.components.push_back({"text_encoder", "transformers", "UMT5EncoderModel",
                             t5_config_json(encoder_shape(shape), shape.type),
                             wan_encoder_tensors(shape)});
  for (std::int64_t i = 1; i <= shape.denoisers; ++i)
    plan.components.push_back({i == 1 ? "transformer" : "transformer_" + std::to_string(i),
                               "diffusers", "WanTransformer3DModel", denoiser_config(shape),
                               wan_denoiser_tensors(shape)});
  if (shape.vae.width > 0)
    plan.components.push_back({"vae", "diffusers", "AutoencoderKLWan", wan_vae_config(shape.vae),
                               wan_vae_tensors(shape.vae, shape.type)});
  if (shape.denoisers == 2)
    plan.index_fields["boundary_ratio"] = 0.875;
  return plan;
}

} // namespace ferry
