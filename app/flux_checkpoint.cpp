// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "flux_checkpoint.hpp"

#include "tensor_list.hpp"

#include <string>

namespace ferry {

namespace {

using nlohmann::json;

constexpr std::int64_t frequencies = 256;
constexpr std::int64_t latents_per_token = 4;

std::int64_t token_channels(const flux_shape& shape) {
  return latents_per_token * shape.vae.latent_channels;
}

/// How many of a head's channels turn with each axis of a position: most with row and column.
json rotary_axes(std::int64_t head_dim) {
  const auto space = 2 * ((head_dim - head_dim / 8) / 4);
  return json::array({head_dim - 2 * space, space, space});
}

void add_embedder(tensor_list& tensors, const std::string& path, std::int64_t in,
                  std::int64_t width) {
  tensors.linear("time_text_embed." + path + ".linear_1", in, width);
  tensors.linear("time_text_embed." + path + ".linear_2", width, width);
}

void add_double_block(tensor_list& tensors, const std::string& block, const flux_shape& shape) {
  const auto width = shape.hidden;
  tensors.linear(block + ".norm1.linear", width, 6 * width);
  tensors.linear(block + ".norm1_context.linear", width, 6 * width);
  for (const auto* layer :
       {"to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"})
    tensors.linear(block + ".attn." + layer, width, width);
  for (const auto* norm : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"})
    tensors.add(block + ".attn." + norm + ".weight", {shape.head_dim});
  for (const auto* feed_forward : {".ff", ".ff_context"}) {
    tensors.linear(block + feed_forward + ".net.0.proj", width, 4 * width);
    tensors.linear(block + feed_forward + ".net.2", 4 * width, width);
  }
}

void add_single_block(tensor_list& tensors, const std::string& block, const flux_shape& shape) {
  const auto width = shape.hidden;
  tensors.linear(block + ".norm.linear", width, 3 * width);
  for (const auto* layer : {"to_q", "to_k", "to_v"})
    tensors.linear(block + ".attn." + layer, width, width);
  for (const auto* norm : {"norm_q", "norm_k"})
    tensors.add(block + ".attn." + norm + ".weight", {shape.head_dim});
  tensors.linear(block + ".proj_mlp", width, 4 * width);
  tensors.linear(block + ".proj_out", 5 * width, width);
}

json denoiser_config(const flux_shape& shape) {
  return {{"_class_name", "FluxTransformer2DModel"},
          {"_diffusers_version", diffusers_version},
          {"attention_head_dim", shape.head_dim},
          {"axes_dims_rope", rotary_axes(shape.head_dim)},
          {"guidance_embeds", true},
          {"in_channels", token_channels(shape)},
          {"joint_attention_dim", shape.t5.hidden},
          {"num_attention_heads", shape.hidden / shape.head_dim},
          {"num_layers", shape.double_blocks},
          {"num_single_layers", shape.single_blocks},
          {"out_channels", nullptr},
          {"patch_size", 1},
          {"pooled_projection_dim", shape.clip.hidden}};
}

json clip_config_json(const clip_shape& shape, dtype type) {
  return {{"architectures", json::array({"CLIPTextModel"})},
          {"attention_dropout", 0.0},
          {"bos_token_id", 0},
          {"dtype", torch_name(type)},
          {"eos_token_id", 2},
          {"hidden_act", "quick_gelu"},
          {"hidden_size", shape.hidden},
          {"initializer_factor", 1.0},
          {"initializer_range", 0.02},
          {"intermediate_size", shape.ffn},
          {"layer_norm_eps", 1e-5},
          {"max_position_embeddings", shape.positions},
          {"model_type", "clip_text_model"},
          {"num_attention_heads", shape.heads},
          {"num_hidden_layers", shape.blocks},
          {"pad_token_id", 1},
          {"projection_dim", shape.hidden},
          {"vocab_size", shape.vocabulary}};
}

} // namespace

std::vector<tensor_declaration> flux_denoiser_tensors(const flux_shape& shape) {
  const auto width = shape.hidden;
  tensor_list tensors(shape.type);
  add_embedder(tensors, "timestep_embedder", frequencies, width);
  add_embedder(tensors, "guidance_embedder", frequencies, width);
  add_embedder(tensors, "text_embedder", shape.clip.hidden, width);
  tensors.linear("context_embedder", shape.t5.hidden, width);
  tensors.linear("x_embedder", token_channels(shape), width);
  for (std::int64_t i = 0; i < shape.double_blocks; ++i)
    add_double_block(tensors, "transformer_blocks." + std::to_string(i), shape);
  for (std::int64_t i = 0; i < shape.single_blocks; ++i)
    add_single_block(tensors, "single_transformer_blocks." + std::to_string(i), shape);
  tensors.linear("norm_out.linear", width, 2 * width);
  tensors.linear("proj_out", width, token_channels(shape));
  return tensors.take();
}

std::vector<tensor_declaration> clip_tensors(const clip_shape& shape, dtype type) {
  const auto width = shape.hidden;
  tensor_list tensors(type);
  tensors.add("embeddings.token_embedding.weight", {shape.vocabulary, width});
  tensors.add("embeddings.position_embedding.weight", {shape.positions, width});
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    const auto block = "encoder.layers." + std::to_string(i);
    tensors.norm(block + ".layer_norm1", width);
    for (const auto* layer : {"q_proj", "k_proj", "v_proj", "out_proj"})
      tensors.linear(block + ".self_attn." + layer, width, width);
    tensors.norm(block + ".layer_norm2", width);
    tensors.linear(block + ".mlp.fc1", width, shape.ffn);
    tensors.linear(block + ".mlp.fc2", shape.ffn, width);
  }
  tensors.norm("final_layer_norm", width);
  return tensors.take();
}

checkpoint_plan plan_checkpoint(const flux_shape& shape) {
  checkpoint_plan plan;
  plan.class_name = "FluxPipeline";
  plan.scheduler = flow_match_scheduler_config(3.0, true);
  plan.components.push_back({"text_encoder", "transformers", "CLIPTextModel",
                             clip_config_json(shape.clip, shape.type),
                             clip_tensors(shape.clip, shape.type)});
  plan.components.push_back({"text_encoder_2", "transformers", "T5EncoderModel",
                             t5_config_json(shape.t5, shape.type),
                             t5_tensors(shape.t5, shape.type)});
  plan.components.push_back({"transformer", "diffusers", "FluxTransformer2DModel",
                             denoiser_config(shape), flux_denoiser_tensors(shape)});
  if (shape.vae.width > 0)
    plan.components.push_back({"vae", "diffusers", "AutoencoderKL", flux_vae_config(shape.vae),
                               flux_vae_tensors(shape.vae, shape.type)});
  return plan;
}

} // namespace ferry
