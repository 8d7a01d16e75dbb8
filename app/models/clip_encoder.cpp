// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/clip_encoder.hpp"

#include <ATen/ATen.h>

#include <string>

namespace ferry {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 20;

at::Tensor split_heads(const at::Tensor& projected, std::int64_t heads) {
  return projected.unflatten(-1, {heads, -1}).transpose(1, 2);
}

} // namespace

clip_config read_clip_config(component_config& file) {
  clip_config config;
  config.vocabulary = file.integer("vocab_size", 1, std::int64_t{1} << 24);
  config.width = file.integer("hidden_size", 1, largest);
  config.heads = file.integer("num_attention_heads", 1, 4096);
  config.ffn_width = file.integer("intermediate_size", 1, largest);
  config.layers = file.integer("num_hidden_layers", 1, 4096);
  config.max_positions = file.integer("max_position_embeddings", 1, largest);
  config.end_id = file.integer("eos_token_id", 0, std::int64_t{1} << 24, 2);
  config.epsilon = file.positive("layer_norm_eps", 1e-5);
  const auto activation = file.one_of("hidden_act", {"quick_gelu", "gelu"});
  config.ffn_activation =
      activation == 0 ? clip_config::activation::quick_gelu : clip_config::activation::gelu;
  file.expect(config.width % config.heads == 0, "hidden_size",
              "a multiple of num_attention_heads, " + std::to_string(config.heads));
  return config;
}

clip_block::clip_block(const weights& source, const clip_config& config)
    : heads_{config.heads}, activation_{config.ffn_activation} {
  const auto projection = [&](std::string_view path, std::int64_t in, std::int64_t out) {
    return add_layer<linear>(*this, source, path, in, out, bias::present);
  };
  const auto norm = [&](std::string_view path) {
    return add_layer<layer_norm_f32>(*this, source, path, config.width, config.epsilon);
  };
  q_ = projection("self_attn.q_proj", config.width, config.width);
  k_ = projection("self_attn.k_proj", config.width, config.width);
  v_ = projection("self_attn.v_proj", config.width, config.width);
  out_ = projection("self_attn.out_proj", config.width, config.width);
  attention_norm_ = norm("layer_norm1");
  up_ = projection("mlp.fc1", config.width, config.ffn_width);
  down_ = projection("mlp.fc2", config.ffn_width, config.width);
  ffn_norm_ = norm("layer_norm2");
}

at::Tensor clip_block::attend(const at::Tensor& normed) const {
  const auto mixed = at::scaled_dot_product_attention(
      split_heads(q_->forward(normed), heads_), split_heads(k_->forward(normed), heads_),
      split_heads(v_->forward(normed), heads_), {}, 0.0, true);
  return out_->forward(mixed.transpose(1, 2).flatten(2));
}

at::Tensor clip_block::activate(const at::Tensor& inner) const {
  return activation_ == clip_config::activation::gelu ? at::gelu(inner)
                                                      : inner * at::sigmoid(inner * 1.702);
}

at::Tensor clip_block::forward(const at::Tensor& hidden) const {
  const auto attended = hidden + attend(attention_norm_->forward(hidden));
  return attended + down_->forward(activate(up_->forward(ffn_norm_->forward(attended))));
}

clip_encoder::clip_encoder(const weights& source, const clip_config& config) : config_{config} {
  const auto prefixed = source.child("text_model");
  const auto place = prefixed.has("final_layer_norm.weight") ? prefixed : source;
  tokens_ = add_layer<embedding>(*this, place, "embeddings.token_embedding", config.vocabulary,
                                 config.width);
  positions_ = add_layer<embedding>(*this, place, "embeddings.position_embedding",
                                    config.max_positions, config.width);
  blocks_ = std::make_shared<block_list<clip_block>>();
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks_->push_back(std::make_shared<clip_block>(
        place.child("encoder.layers").child(std::to_string(i)), config));
  }
  attach(*this, "encoder.layers", blocks_);
  final_norm_ =
      add_layer<layer_norm_f32>(*this, place, "final_layer_norm", config.width, config.epsilon);
}

// Configurations of older versions say 2 whatever the id is; it is then the largest of all.
at::Tensor clip_encoder::ends(const at::Tensor& ids) const {
  constexpr std::int64_t unknown = 2;
  return config_.end_id == unknown ? ids.argmax(-1)
                                   : ids.eq(config_.end_id).to(at::kInt).argmax(-1);
}

clip_encoder::output clip_encoder::forward(const at::Tensor& ids) const {
  auto hidden = tokens_->forward(ids) + positions_->forward(at::arange(ids.size(1), ids.options()));
  const auto type = hidden.scalar_type();
  for (const auto& block : *blocks_) {
    hidden = block(hidden);
  }
  hidden = final_norm_->forward(hidden).to(type);
  return {hidden, hidden.index({at::arange(ids.size(0), ids.options()), ends(ids)})};
}

} // namespace ferry
