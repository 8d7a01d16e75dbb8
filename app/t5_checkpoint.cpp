// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "t5_checkpoint.hpp"

#include "tensor_list.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace ferry {

namespace {

constexpr std::int64_t distance_buckets = 32;

} // namespace

const char* torch_name(dtype type) {
  return type == dtype::f32 ? "float32" : type == dtype::bf16 ? "bfloat16" : "float16";
}

std::vector<tensor_declaration> t5_tensors(const t5_shape& shape, dtype type) {
  const auto width = shape.hidden;
  const auto inner = shape.heads * shape.head_dim;
  tensor_list tensors(type);
  tensors.add("shared.weight", {shape.vocabulary, width});
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    const auto block = "encoder.block." + std::to_string(i);
    const auto attention = block + ".layer.0.SelfAttention.";
    for (const auto* layer : {"q", "k", "v"})
      tensors.add(attention + layer + ".weight", {inner, width});
    tensors.add(attention + "o.weight", {width, inner});
    if (i == 0 || shape.kind == t5_shape::family::umt5)
      tensors.add(attention + "relative_attention_bias.weight", {distance_buckets, shape.heads});
    tensors.add(block + ".layer.0.layer_norm.weight", {width});
    const auto feed_forward = block + ".layer.1.DenseReluDense.";
    tensors.add(feed_forward + "wi_0.weight", {shape.ffn, width});
    tensors.add(feed_forward + "wi_1.weight", {shape.ffn, width});
    tensors.add(feed_forward + "wo.weight", {width, shape.ffn});
    tensors.add(block + ".layer.1.layer_norm.weight", {width});
  }
  tensors.add("encoder.final_layer_norm.weight", {width});
  return tensors.take();
}

nlohmann::json t5_config_json(const t5_shape& shape, dtype type) {
  const bool umt5 = shape.kind == t5_shape::family::umt5;
  nlohmann::json config = {
      {"architectures", nlohmann::json::array({umt5 ? "UMT5EncoderModel" : "T5EncoderModel"})},
      {"classifier_dropout", 0.0},
      {"d_ff", shape.ffn},
      {"d_kv", shape.head_dim},
      {"d_model", shape.hidden},
      {"dense_act_fn", "gelu_new"},
      {"dropout_rate", 0.0},
      {"dtype", torch_name(type)},
      {"eos_token_id", 1},
      {"feed_forward_proj", "gated-gelu"},
      {"initializer_factor", 1.0},
      {"is_decoder", false},
      {"is_encoder_decoder", umt5},
      {"is_gated_act", true},
      {"layer_norm_epsilon", 1e-6},
      {"model_type", umt5 ? "umt5" : "t5"},
      {"num_decoder_layers", shape.blocks},
      {"num_heads", shape.heads},
      {"num_layers", shape.blocks},
      {"pad_token_id", 0},
      {"relative_attention_max_distance", 128},
      {"relative_attention_num_buckets", distance_buckets},
      {"scale_decoder_outputs", true},
      {"tie_word_embeddings", true},
      {"use_cache", umt5},
      {"vocab_size", shape.vocabulary}};
  if (umt5)
    config["decoder_start_token_id"] = 0;
  return config;
}

} // namespace ferry
