// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/t5_encoder.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>

namespace ferry {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 20;

/// Classes of relative distance: one each for the near ones, then logarithmically wider ones, the
/// upper half for tokens that come later.
at::Tensor distance_classes(std::int64_t tokens, const t5_config& config, at::Device where) {
  const auto position = at::arange(tokens, at::TensorOptions(at::kLong).device(where));
  const auto offset = position.unsqueeze(0) - position.unsqueeze(1);
  const auto per_direction = config.buckets / 2;
  const auto exact = per_direction / 2;
  const auto distance = offset.abs();
  const auto growth =
      (distance.to(at::kFloat) / static_cast<double>(exact)).log() /
      std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact));
  const auto far = (growth * static_cast<double>(per_direction - exact)).to(at::kLong) + exact;
  const auto within = at::where(distance < exact, distance, far.clamp_max(per_direction - 1));
  return within + (offset > 0).to(at::kLong) * per_direction;
}

at::Tensor split_heads(const at::Tensor& projected, std::int64_t heads) {
  return projected.unflatten(-1, {heads, -1}).transpose(1, 2);
}

/// Float16 overflows in deep encoders; clamping keeps the sum usable.
at::Tensor within_f16(at::Tensor hidden) {
  if (hidden.scalar_type() == at::kHalf) {
    constexpr double bound = 65504.0 - 1000.0;
    hidden.clamp_(-bound, bound);
  }
  return hidden;
}

} // namespace

t5_config read_t5_config(component_config& file, t5_positions positions) {
  t5_config config;
  config.positions = positions;
  config.vocabulary = file.integer("vocab_size", 1, std::int64_t{1} << 24);
  config.width = file.integer("d_model", 1, largest);
  config.head_width = file.integer("d_kv", 1, largest);
  config.heads = file.integer("num_heads", 1, 4096);
  config.ffn_width = file.integer("d_ff", 1, largest);
  config.layers = file.integer("num_layers", 1, 4096);
  config.buckets = file.integer("relative_attention_num_buckets", 4, 4096, 32);
  config.max_distance =
      file.integer("relative_attention_max_distance", config.buckets / 4 + 1, largest, 128);
  config.epsilon = file.positive("layer_norm_epsilon", 1e-6);
  file.expect_text("feed_forward_proj", "gated-gelu");
  return config;
}

t5_block::t5_block(const weights& source, const t5_config& config, table distances)
    : heads_{config.heads} {
  const auto inner = config.heads * config.head_width;
  const auto projection = [&](std::string_view path, std::int64_t in, std::int64_t out) {
    return add_layer<linear>(*this, source, path, in, out, bias::absent);
  };
  q_ = projection("layer.0.SelfAttention.q", config.width, inner);
  k_ = projection("layer.0.SelfAttention.k", config.width, inner);
  v_ = projection("layer.0.SelfAttention.v", config.width, inner);
  o_ = projection("layer.0.SelfAttention.o", inner, config.width);
  if (distances == table::own) {
    distance_bias_ = add_layer<embedding>(
        *this, source, "layer.0.SelfAttention.relative_attention_bias", config.buckets, heads_);
  }
  attention_norm_ =
      add_layer<t5_rms_norm>(*this, source, "layer.0.layer_norm", config.width, config.epsilon);
  gate_ = projection("layer.1.DenseReluDense.wi_0", config.width, config.ffn_width);
  up_ = projection("layer.1.DenseReluDense.wi_1", config.width, config.ffn_width);
  down_ = projection("layer.1.DenseReluDense.wo", config.ffn_width, config.width);
  ffn_norm_ =
      add_layer<t5_rms_norm>(*this, source, "layer.1.layer_norm", config.width, config.epsilon);
}

at::Tensor t5_block::attend(const at::Tensor& normed, const at::Tensor& bias) const {
  const auto q = split_heads(q_->forward(normed), heads_);
  const auto k = split_heads(k_->forward(normed), heads_);
  const auto v = split_heads(v_->forward(normed), heads_);
  const auto scores = at::matmul(q, k.transpose(-1, -2)).add_(bias);
  const auto weight = at::softmax(scores, -1, at::kFloat).to(v.scalar_type());
  return o_->forward(at::matmul(weight, v).transpose(1, 2).flatten(2));
}

std::pair<at::Tensor, at::Tensor> t5_block::forward(const at::Tensor& hidden,
                                                    const at::Tensor& distances,
                                                    const at::Tensor& inherited,
                                                    const at::Tensor& mask) const {
  auto bias = distance_bias_ ? distance_bias_->forward(distances).permute({2, 0, 1}).unsqueeze(0)
                             : inherited;
  const auto attended = within_f16(hidden + attend(attention_norm_->forward(hidden), bias + mask));
  const auto normed = ffn_norm_->forward(attended);
  const auto gated = at::gelu(gate_->forward(normed), "tanh").mul_(up_->forward(normed));
  return {within_f16(attended + down_->forward(gated)), std::move(bias)};
}

t5_encoder::t5_encoder(const weights& source, const t5_config& config) : config_{config} {
  tokens_ = std::make_shared<embedding>(source.take_first(
      {"shared.weight", "encoder.embed_tokens.weight"}, {config.vocabulary, config.width}));
  attach(*this, "shared", tokens_);
  blocks_ = std::make_shared<block_list<t5_block>>();
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const bool own = i == 0 || config.positions == t5_positions::per_block;
    blocks_->push_back(
        std::make_shared<t5_block>(source.child("encoder.block").child(std::to_string(i)), config,
                                   own ? t5_block::table::own : t5_block::table::none));
  }
  attach(*this, "encoder.block", blocks_);
  final_norm_ = add_layer<t5_rms_norm>(*this, source, "encoder.final_layer_norm", config.width,
                                       config.epsilon);
}

at::Tensor t5_encoder::forward(const at::Tensor& ids, const at::Tensor& mask,
                               const block_observer& observe) const {
  auto hidden = tokens_->forward(ids);
  const auto distances = distance_classes(ids.size(1), config_, ids.device());
  const auto never = hidden.scalar_type() == at::kHalf ? -6e4 : -1e38;
  const auto excluded = at::zeros(mask.sizes(), hidden.options())
                            .masked_fill_(mask == 0, never)
                            .unsqueeze(1)
                            .unsqueeze(1);
  at::Tensor bias;
  for (std::size_t i = 0; i < blocks_->size(); ++i) {
    std::tie(hidden, bias) = (*blocks_)[i](hidden, distances, bias, excluded);
    if (observe) {
      observe(i, hidden);
    }
  }
  return final_norm_->forward(hidden);
}

} // namespace ferry
