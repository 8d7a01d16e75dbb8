// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/image_decoder.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

namespace ferry {
namespace {

constexpr double epsilon = 1e-6;
constexpr std::int64_t colors = 3;

} // namespace

image_decoder_config read_image_decoder_config(component_config& file) {
  constexpr std::int64_t widest = 65536;
  constexpr std::size_t most_resolutions = 7;
  image_decoder_config config;
  config.latent_channels = file.integer("latent_channels", 1, 4096);
  file.expect_integer("out_channels", 3);
  config.widths = file.integers("block_out_channels", 1, widest, {1, most_resolutions});
  config.blocks_per_resolution = file.integer("layers_per_block", 1, 64);
  config.norm_groups = file.integer("norm_num_groups", 1, widest, 32);
  config.attention = file.boolean("mid_block_add_attention", true);
  config.post_quant = file.boolean("use_post_quant_conv", true);
  config.scaling_factor = file.positive("scaling_factor", 0.18215);
  config.shift_factor = file.number("shift_factor", 0);
  file.expect_each_text("up_block_types", "UpDecoderBlock2D");
  file.expect_text("act_fn", "silu");
  file.expect_off("latents_mean");
  file.expect_off("latents_std");
  const bool divisible = std::ranges::all_of(
      config.widths, [&](std::int64_t width) { return width % config.norm_groups == 0; });
  file.expect(divisible, "block_out_channels",
              "multiples of norm_num_groups, " + std::to_string(config.norm_groups));
  return config;
}

convolution::convolution(const weights& source, std::int64_t inputs, std::int64_t outputs,
                         std::int64_t kernel)
    : weight_{register_parameter("weight", source.take("weight", {outputs, inputs, kernel, kernel}),
                                 false)},
      bias_{register_parameter("bias", source.take("bias", {outputs}), false)} {}

at::Tensor convolution::forward(const at::Tensor& input) const {
  const auto around = weight_.size(-1) / 2;
  return at::conv2d(input.to(weight_.scalar_type()), weight_, bias_, 1, around);
}

group_norm::group_norm(const weights& source, std::int64_t width, std::int64_t groups)
    : groups_{groups}, weight_{register_parameter("weight", source.take("weight", {width}), false)},
      bias_{register_parameter("bias", source.take("bias", {width}), false)} {}

at::Tensor group_norm::forward(const at::Tensor& input) const {
  const auto type = input.scalar_type();
  return at::group_norm(input, groups_, weight_.to(type), bias_.to(type), epsilon);
}

residual_block::residual_block(const weights& source, std::int64_t inputs, std::int64_t outputs,
                               std::int64_t groups)
    : norm_in_{add_layer<group_norm>(*this, source, "norm1", inputs, groups)},
      in_{add_layer<convolution>(*this, source, "conv1", inputs, outputs, 3)},
      norm_out_{add_layer<group_norm>(*this, source, "norm2", outputs, groups)},
      out_{add_layer<convolution>(*this, source, "conv2", outputs, outputs, 3)} {
  if (inputs != outputs) {
    shortcut_ = add_layer<convolution>(*this, source, "conv_shortcut", inputs, outputs, 1);
  }
}

at::Tensor residual_block::forward(const at::Tensor& input) const {
  const auto inner = in_->forward(at::silu(norm_in_->forward(input)));
  const auto change = out_->forward(at::silu(norm_out_->forward(inner)));
  return (shortcut_ ? shortcut_->forward(input) : input) + change;
}

pixel_attention::pixel_attention(const weights& source, std::int64_t width, std::int64_t groups)
    : norm_{add_layer<group_norm>(*this, source, "group_norm", width, groups)},
      to_q_{add_layer<linear>(*this, source, "to_q", width, width, bias::present)},
      to_k_{add_layer<linear>(*this, source, "to_k", width, width, bias::present)},
      to_v_{add_layer<linear>(*this, source, "to_v", width, width, bias::present)},
      to_out_{add_layer<linear>(*this, source, "to_out.0", width, width, bias::present)} {}

at::Tensor pixel_attention::forward(const at::Tensor& input) const {
  const auto pixels = norm_->forward(input).flatten(2).transpose(1, 2).unsqueeze(1);
  const auto mixed = at::scaled_dot_product_attention(
      to_q_->forward(pixels), to_k_->forward(pixels), to_v_->forward(pixels));
  return input + to_out_->forward(mixed).squeeze(1).transpose(1, 2).view_as(input);
}

image_decoder::image_decoder(const weights& source, const image_decoder_config& config) {
  const auto coarsest = config.widths.back();
  const auto finest = config.widths.front();
  if (config.post_quant) {
    post_quant_ = add_layer<convolution>(*this, source, "post_quant_conv", config.latent_channels,
                                         config.latent_channels, 1);
  }
  in_ =
      add_layer<convolution>(*this, source, "decoder.conv_in", config.latent_channels, coarsest, 3);
  add_middle(source, config);
  add_levels(source, config);
  norm_out_ =
      add_layer<group_norm>(*this, source, "decoder.conv_norm_out", finest, config.norm_groups);
  out_ = add_layer<convolution>(*this, source, "decoder.conv_out", finest, colors, 3);
}

void image_decoder::add_middle(const weights& source, const image_decoder_config& config) {
  const auto width = config.widths.back();
  const auto residual = [&](std::string_view path) {
    return add_layer<residual_block>(*this, source, path, width, width, config.norm_groups);
  };
  middle_in_ = residual("decoder.mid_block.resnets.0");
  if (config.attention) {
    attention_ = add_layer<pixel_attention>(*this, source, "decoder.mid_block.attentions.0", width,
                                            config.norm_groups);
  }
  middle_out_ = residual("decoder.mid_block.resnets.1");
}

void image_decoder::add_levels(const weights& source, const image_decoder_config& config) {
  auto width = config.widths.back();
  for (std::size_t i = 0; i < config.widths.size(); ++i) {
    const auto place = "decoder.up_blocks." + std::to_string(i);
    const auto next = config.widths[config.widths.size() - 1 - i];
    auto& added = levels_.emplace_back();
    for (std::int64_t block = 0; block <= config.blocks_per_resolution; ++block) {
      const auto path = place + ".resnets." + std::to_string(block);
      added.blocks.push_back(
          add_layer<residual_block>(*this, source, path, width, next, config.norm_groups));
      width = next;
    }
    if (i + 1 < config.widths.size()) {
      added.doubled =
          add_layer<convolution>(*this, source, place + ".upsamplers.0.conv", width, width, 3);
    }
  }
}

at::Tensor image_decoder::decode(const at::Tensor& latents) const {
  auto hidden = in_->forward(post_quant_ ? post_quant_->forward(latents) : latents);
  hidden = middle_in_->forward(hidden);
  hidden = middle_out_->forward(attention_ ? attention_->forward(hidden) : hidden);
  for (const auto& each : levels_) {
    for (const auto& block : each.blocks) {
      hidden = block->forward(hidden);
    }
    if (each.doubled) {
      const std::array<std::int64_t, 2> doubled{2 * hidden.size(2), 2 * hidden.size(3)};
      hidden = each.doubled->forward(at::upsample_nearest2d(hidden, doubled));
    }
  }
  return out_->forward(at::silu(norm_out_->forward(hidden))).to(at::kFloat);
}

} // namespace ferry
