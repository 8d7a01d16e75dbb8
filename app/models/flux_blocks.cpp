// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_blocks.hpp"

#include "models/rotary.hpp"

#include <ATen/ATen.h>

#include <string>

namespace ferry {
namespace {

constexpr flux_projection::names image_names{"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q",
                                             "attn.norm_k"};
constexpr flux_projection::names text_names{"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj",
                                            "attn.norm_added_q", "attn.norm_added_k"};

/// Shifts, scales and gates, `[batch, 1, width]` each, in the dtype of `tokens`.
std::vector<at::Tensor> modulation_of(const linear& layer, const at::Tensor& conditioning,
                                      std::int64_t parts, const at::Tensor& tokens) {
  return layer.forward(at::silu(conditioning))
      .to(tokens.scalar_type())
      .unsqueeze(1)
      .chunk(parts, -1);
}

at::Tensor modulated_norm(const at::Tensor& tokens, const at::Tensor& shift,
                          const at::Tensor& scale) {
  const auto normed = at::layer_norm(tokens, {tokens.size(-1)}, {}, {}, flux_config::epsilon);
  return at::addcmul(shift, normed, scale + 1);
}

at::Tensor attend(const flux_heads& heads, const at::Tensor& rotary) {
  const auto mixed = at::scaled_dot_product_attention(rotate(heads.q, rotary).transpose(1, 2),
                                                      rotate(heads.k, rotary).transpose(1, 2),
                                                      heads.v.transpose(1, 2));
  return mixed.transpose(1, 2).flatten(2);
}

/// Float16 overflows in deep denoisers; clamping keeps the sum usable.
at::Tensor within_f16(at::Tensor tokens) {
  if (tokens.scalar_type() == at::kHalf) {
    tokens.clamp_(-65504.0, 65504.0);
  }
  return tokens;
}

} // namespace

flux_projection::flux_projection(torch::nn::Module& block, const weights& source,
                                 const flux_config& config, const names& called)
    : heads_{config.heads} {
  const auto projection = [&](std::string_view path) {
    return add_layer<linear>(block, source, path, config.width(), config.width(), bias::present);
  };
  q_ = projection(called.q);
  k_ = projection(called.k);
  v_ = projection(called.v);
  norm_q_ =
      add_layer<rms_norm>(block, source, called.norm_q, config.head_width, flux_config::epsilon);
  norm_k_ =
      add_layer<rms_norm>(block, source, called.norm_k, config.head_width, flux_config::epsilon);
}

flux_heads flux_projection::forward(const at::Tensor& input) const {
  const auto split = [&](const linear& layer) {
    return layer.forward(input).unflatten(-1, {heads_, -1});
  };
  return {norm_q_->forward(split(*q_)), norm_k_->forward(split(*k_)), split(*v_)};
}

flux_double_block::flux_double_block(const weights& source, const flux_config& config)
    : image_heads_{*this, source, config, image_names},
      text_heads_{*this, source, config, text_names},
      image_{make_side(source, config, {"norm1.linear", "attn.to_out.0", "ff"})},
      text_{make_side(source, config, {"norm1_context.linear", "attn.to_add_out", "ff_context"})} {}

flux_double_block::side flux_double_block::make_side(const weights& source,
                                                     const flux_config& config,
                                                     const side_names& called) {
  const auto width = config.width();
  const auto layer = [&](std::string_view path, std::int64_t in, std::int64_t out) {
    return add_layer<linear>(*this, source, path, in, out, bias::present);
  };
  const std::string ffn{called.ffn};
  return {layer(called.modulation, width, 6 * width), layer(called.out, width, width),
          layer(ffn + ".net.0.proj", width, config.ffn_width()),
          layer(ffn + ".net.2", config.ffn_width(), width)};
}

at::Tensor flux_double_block::advance(const side& layers, const at::Tensor& tokens,
                                      const at::Tensor& mixed, at::TensorList modulation) const {
  const auto attended = at::addcmul(tokens, layers.out->forward(mixed), modulation[2]);
  auto inner = layers.up->forward(modulated_norm(attended, modulation[3], modulation[4]));
  return at::addcmul(attended, layers.down->forward(at::gelu_(inner, "tanh")), modulation[5]);
}

flux_tokens flux_double_block::forward(const flux_tokens& tokens, const at::Tensor& conditioning,
                                       const at::Tensor& rotary) const {
  const auto t = modulation_of(*text_.modulation, conditioning, 6, tokens.text);
  const auto i = modulation_of(*image_.modulation, conditioning, 6, tokens.image);
  const auto text = text_heads_.forward(modulated_norm(tokens.text, t[0], t[1]));
  const auto image = image_heads_.forward(modulated_norm(tokens.image, i[0], i[1]));
  const auto mixed = attend(
      {at::cat({text.q, image.q}, 1), at::cat({text.k, image.k}, 1), at::cat({text.v, image.v}, 1)},
      rotary);
  const auto parts = mixed.split_with_sizes({tokens.text.size(1), tokens.image.size(1)}, 1);
  return {within_f16(advance(text_, tokens.text, parts[0], t)),
          advance(image_, tokens.image, parts[1], i)};
}

flux_single_block::flux_single_block(const weights& source, const flux_config& config)
    : heads_{*this, source, config, image_names} {
  const auto width = config.width();
  modulation_ = add_layer<linear>(*this, source, "norm.linear", width, 3 * width, bias::present);
  up_ = add_layer<linear>(*this, source, "proj_mlp", width, config.ffn_width(), bias::present);
  out_ = add_layer<linear>(*this, source, "proj_out", width + config.ffn_width(), width,
                           bias::present);
}

flux_tokens flux_single_block::forward(const flux_tokens& tokens, const at::Tensor& conditioning,
                                       const at::Tensor& rotary) const {
  const auto row = at::cat({tokens.text, tokens.image}, 1);
  const auto m = modulation_of(*modulation_, conditioning, 3, row);
  const auto normed = modulated_norm(row, m[0], m[1]);
  auto inner = up_->forward(normed);
  const auto mixed = attend(heads_.forward(normed), rotary);
  const auto change = out_->forward(at::cat({mixed, at::gelu_(inner, "tanh")}, -1));
  const auto next = within_f16(at::addcmul(row, change, m[2]));
  const auto parts = next.split_with_sizes({tokens.text.size(1), tokens.image.size(1)}, 1);
  return {parts[0], parts[1]};
}

} // namespace ferry
