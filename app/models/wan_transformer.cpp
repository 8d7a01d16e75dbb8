// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_transformer.hpp"

#include "models/rotary.hpp"
#include "models/timestep_code.hpp"

#include <ATen/ATen.h>

#include <string>

namespace ferry {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 20;

/// Each token's turns: a head's channels are divided between time, rows and columns.
at::Tensor rotary_turns(at::IntArrayRef grid, std::int64_t head_width, at::Device where) {
  const auto space = 2 * (head_width / 6);
  const std::array<std::int64_t, 3> channels{head_width - 2 * space, space, space};
  std::vector<at::Tensor> axes;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::array<std::int64_t, 4> shape{1, 1, 1, channels[axis] / 2};
    shape[axis] = grid[axis];
    axes.push_back(axis_turns(at::arange(grid[axis], at::TensorOptions(at::kLong).device(where)),
                              channels[axis])
                       .view(shape)
                       .expand({grid[0], grid[1], grid[2], channels[axis] / 2}));
  }
  return at::cat(axes, -1).view({1, grid[0] * grid[1] * grid[2], 1, head_width / 2});
}

at::Tensor plain_norm_f32(const at::Tensor& input, std::int64_t width, double epsilon) {
  return at::layer_norm(input.to(at::kFloat), {width}, {}, {}, epsilon);
}

/// `normed * (1 + scale) + shift`
at::Tensor modulate(const at::Tensor& normed, const at::Tensor& shift, const at::Tensor& scale) {
  return at::addcmul(shift, normed, scale + 1);
}

/// `hidden + change * gate` in float32, rounded to the dtype of `hidden`.
at::Tensor add_gated(const at::Tensor& hidden, const at::Tensor& change, const at::Tensor& gate) {
  return at::addcmul(hidden.to(at::kFloat), change.to(at::kFloat), gate).to(hidden.scalar_type());
}

} // namespace

wan_config read_wan_config(component_config& file) {
  wan_config config;
  config.patch = file.three("patch_size", 1, 64);
  config.heads = file.integer("num_attention_heads", 1, 4096);
  config.head_width = file.even("attention_head_dim", 6, 4096);
  config.in_channels = file.integer("in_channels", 1, 4096);
  config.out_channels = file.integer("out_channels", 1, 4096, config.in_channels);
  config.text_width = file.integer("text_dim", 1, largest);
  config.frequencies = file.even("freq_dim", 2, largest);
  config.ffn_width = file.integer("ffn_dim", 1, largest);
  config.layers = file.integer("num_layers", 1, 4096);
  config.max_positions = file.integer("rope_max_seq_len", 1, largest, 1024);
  config.cross_attention_norm = file.boolean("cross_attn_norm", true);
  config.epsilon = file.positive("eps", 1e-6);
  file.expect_text("qk_norm", "rms_norm_across_heads");
  file.expect_off("image_dim");
  file.expect_off("added_kv_proj_dim");
  return config;
}

wan_attention::wan_attention(const weights& source, const wan_config& config)
    : heads_{config.heads} {
  const auto width = config.width();
  const auto projection = [&](std::string_view path) {
    return add_layer<linear>(*this, source, path, width, width, bias::present);
  };
  to_q_ = projection("to_q");
  to_k_ = projection("to_k");
  to_v_ = projection("to_v");
  to_out_ = projection("to_out.0");
  norm_q_ = add_layer<rms_norm>(*this, source, "norm_q", width, config.epsilon);
  norm_k_ = add_layer<rms_norm>(*this, source, "norm_k", width, config.epsilon);
}

at::Tensor wan_attention::forward(const at::Tensor& input, const at::Tensor& context,
                                  const at::Tensor& rotary) const {
  auto q = norm_q_->forward(to_q_->forward(input)).unflatten(-1, {heads_, -1});
  auto k = norm_k_->forward(to_k_->forward(context)).unflatten(-1, {heads_, -1});
  const auto v = to_v_->forward(context).unflatten(-1, {heads_, -1});
  if (rotary.defined()) {
    q = rotate(q, rotary);
    k = rotate(k, rotary);
  }
  const auto mixed =
      at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
  return to_out_->forward(mixed.transpose(1, 2).flatten(2));
}

wan_block::wan_block(const weights& source, const wan_config& config)
    : width_{config.width()}, epsilon_{config.epsilon},
      scale_shift_table_{register_parameter(
          "scale_shift_table", source.take("scale_shift_table", {1, 6, width_}, precision::exact),
          false)} {
  self_attention_ = add_layer<wan_attention>(*this, source, "attn1", config);
  cross_attention_ = add_layer<wan_attention>(*this, source, "attn2", config);
  if (config.cross_attention_norm) {
    cross_norm_ = add_layer<layer_norm_f32>(*this, source, "norm2", width_, epsilon_);
  }
  up_ = add_layer<linear>(*this, source, "ffn.net.0.proj", width_, config.ffn_width, bias::present);
  down_ = add_layer<linear>(*this, source, "ffn.net.2", config.ffn_width, width_, bias::present);
}

at::Tensor wan_block::forward(const at::Tensor& hidden, const at::Tensor& text,
                              const at::Tensor& modulation, const at::Tensor& rotary) const {
  const auto type = hidden.scalar_type();
  const auto m = (scale_shift_table_.to(at::kFloat) + modulation).chunk(6, 1);

  auto normed = modulate(plain_norm_f32(hidden, width_, epsilon_), m[0], m[1]).to(type);
  auto state = add_gated(hidden, self_attention_->forward(normed, normed, rotary), m[2]);

  normed = cross_norm_ ? cross_norm_->forward(state).to(type) : state;
  state = state + cross_attention_->forward(normed, text, {});

  normed = modulate(plain_norm_f32(state, width_, epsilon_), m[3], m[4]).to(type);
  auto inner = up_->forward(normed);
  return add_gated(state, down_->forward(at::gelu_(inner, "tanh")), m[5]);
}

wan_transformer::wan_transformer(const weights& source, const wan_config& config)
    : config_{config} {
  const auto width = config.width();
  const auto [frames, rows, columns] = config.patch;
  auto embedder = std::make_shared<torch::nn::Module>();
  const auto patch = source.child("patch_embedding");
  patch_weight_ = embedder->register_parameter(
      "weight", patch.take("weight", {width, config.in_channels, frames, rows, columns}), false);
  patch_bias_ = embedder->register_parameter("bias", patch.take("bias", {width}), false);
  attach(*this, "patch_embedding", embedder);

  const auto conditioner = [&](std::string_view path, std::int64_t in, std::int64_t out) {
    return add_layer<linear>(*this, source, path, in, out, bias::present);
  };
  time_in_ = conditioner("condition_embedder.time_embedder.linear_1", config.frequencies, width);
  time_out_ = conditioner("condition_embedder.time_embedder.linear_2", width, width);
  time_projection_ = conditioner("condition_embedder.time_proj", width, 6 * width);
  text_in_ = conditioner("condition_embedder.text_embedder.linear_1", config.text_width, width);
  text_out_ = conditioner("condition_embedder.text_embedder.linear_2", width, width);

  blocks_ = std::make_shared<block_list<wan_block>>();
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks_->push_back(
        std::make_shared<wan_block>(source.child("blocks").child(std::to_string(i)), config));
  }
  attach(*this, "blocks", blocks_);
  scale_shift_table_ =
      register_parameter("scale_shift_table",
                         source.take("scale_shift_table", {1, 2, width}, precision::exact), false);
  projection_ = conditioner("proj_out", width, config.out_channels * config.patch_size());
}

/// A convolution whose stride is its kernel is a matrix product over the patches.
at::Tensor wan_transformer::patches(const at::Tensor& latents) const {
  const auto [f, r, c] = config_.patch;
  const auto cut = latents.to(patch_weight_.scalar_type())
                       .unflatten(4, {-1, c})
                       .unflatten(3, {-1, r})
                       .unflatten(2, {-1, f});
  const auto rows = cut.permute({0, 2, 4, 6, 1, 3, 5, 7}).flatten(4).flatten(1, 3);
  return at::linear(rows, patch_weight_.flatten(1), patch_bias_);
}

at::Tensor wan_transformer::unpatch(const at::Tensor& tokens, at::IntArrayRef grid) const {
  const auto [f, r, c] = config_.patch;
  return tokens.view({tokens.size(0), grid[0], grid[1], grid[2], f, r, c, config_.out_channels})
      .permute({0, 7, 1, 4, 2, 5, 3, 6})
      .reshape({tokens.size(0), config_.out_channels, grid[0] * f, grid[1] * r, grid[2] * c});
}

void wan_transformer::passing::run(const block_ref<wan_block>& block, std::size_t index) {
  hidden = block(hidden, context, modulation, rotary);
  if (told->block) {
    told->block(index, hidden);
  }
}

at::Tensor wan_transformer::forward(const wan_input& asked, const wan_watch& told) const {
  return run_alone(*this, asked, told);
}

wan_transformer::passing wan_transformer::begin(const wan_input& asked,
                                                const wan_watch& told) const {
  const auto& latents = asked.latents;
  const auto type = patch_weight_.scalar_type();
  passing made;
  made.told = &told;
  made.grid = {latents.size(2) / config_.patch[0], latents.size(3) / config_.patch[1],
               latents.size(4) / config_.patch[2]};
  made.rotary = rotary_turns(made.grid, config_.head_width, latents.device());

  const auto code = timestep_code(asked.timestep, config_.frequencies, latents.device());
  made.time = time_out_->forward_f32(at::silu(time_in_->forward_f32(code))).to(type);
  made.modulation =
      time_projection_->forward(at::silu(made.time)).view({1, 6, config_.width()}).to(at::kFloat);
  auto raised = text_in_->forward(asked.text);
  made.context = text_out_->forward(at::gelu_(raised, "tanh"));
  made.hidden = patches(latents);
  return made;
}

void wan_transformer::run(std::span<passing* const> passes) const {
  run_blocks(*blocks_, 0, passes);
}

at::Tensor wan_transformer::end(const passing& pass) const {
  const auto m =
      (scale_shift_table_.to(at::kFloat) + pass.time.unsqueeze(1).to(at::kFloat)).chunk(2, 1);
  const auto hidden =
      modulate(plain_norm_f32(pass.hidden, config_.width(), config_.epsilon), m[0], m[1])
          .to(patch_weight_.scalar_type());
  return unpatch(projection_->forward(hidden), pass.grid);
}

} // namespace ferry
