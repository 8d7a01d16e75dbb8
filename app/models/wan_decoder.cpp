// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_decoder.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

namespace ferry {
namespace {

constexpr std::int64_t colours = 3;
constexpr causal_conv::kernel wide{3, 3, 3};
constexpr causal_conv::kernel point{1, 1, 1};

/// One number a channel, against `[1, channels, frames, rows, columns]`.
at::Tensor a_number_a_channel(const std::vector<double>& numbers, at::Device where) {
  return at::tensor(numbers, at::kFloat).to(where).view({1, -1, 1, 1, 1});
}

} // namespace

std::int64_t wan_decoder_config::pixels_per_latent() const noexcept {
  return std::int64_t{1} << upsamplings.size();
}

std::int64_t wan_decoder_config::frames_per_latent() const noexcept {
  return std::int64_t{1} << std::ranges::count(upsamplings, upsampling::space_and_time);
}

wan_decoder_config read_wan_decoder_config(component_config& file) {
  constexpr std::int64_t widest = 65536;
  constexpr std::size_t most_stages = 7;
  wan_decoder_config config;
  config.channels = file.integer("z_dim", 1, 4096);
  const auto encoder_width = file.even("base_dim", 2, widest);
  const auto width = file.even("decoder_base_dim", 2, widest, encoder_width);
  config.widths = file.integers("dim_mult", 1, 64, {1, most_stages});
  std::ranges::reverse(config.widths);
  std::ranges::for_each(config.widths, [&](auto& stage) { stage *= width; });
  const auto stages = config.widths.size();
  for (const bool in_time : file.booleans("temperal_downsample", {stages - 1, stages - 1})) {
    config.upsamplings.push_back(in_time ? upsampling::space_and_time : upsampling::space);
  }
  std::ranges::reverse(config.upsamplings);
  config.residual_blocks = file.integer("num_res_blocks", 1, 64);
  const auto channels = static_cast<std::size_t>(config.channels);
  config.latents_mean = file.numbers("latents_mean", {channels, channels});
  config.latents_deviation = file.numbers("latents_std", {channels, channels});
  file.expect_integer("out_channels", colours);
  file.expect_integer("scale_factor_spatial", config.pixels_per_latent());
  file.expect_integer("scale_factor_temporal", config.frames_per_latent());
  file.expect_empty("attn_scales");
  file.expect_off("is_residual");
  file.expect_off("patch_size");
  return config;
}

wan_decoder::wan_decoder(const weights& source, const wan_decoder_config& config)
    : config_{config} {
  const auto first = config.widths.front();
  const auto last = config.widths.back();
  const auto latent = config.channels;
  constexpr std::size_t dimensions = 4;
  post_quant_conv_ =
      add_layer<causal_conv>(*this, source, "post_quant_conv", latent, latent, point);
  conv_in_ = add_layer<causal_conv>(*this, source, "decoder.conv_in", latent, first, wide);
  middle_in_ =
      add_layer<causal_residual>(*this, source, "decoder.mid_block.resnets.0", first, first);
  attention_ = add_layer<frame_attention>(*this, source, "decoder.mid_block.attentions.0", first);
  middle_out_ =
      add_layer<causal_residual>(*this, source, "decoder.mid_block.resnets.1", first, first);
  for (std::size_t i = 0; i < config.widths.size(); ++i) {
    stages_.push_back(add_stage(source, i));
  }
  norm_out_ = add_layer<channel_norm>(*this, source, "decoder.norm_out", last, dimensions);
  conv_out_ = add_layer<causal_conv>(*this, source, "decoder.conv_out", last, colours, wide);
}

wan_decoder::stage wan_decoder::add_stage(const weights& source, std::size_t index) {
  const auto path = "decoder.up_blocks." + std::to_string(index);
  const auto width = config_.widths[index];
  auto inputs = index == 0 ? width : config_.widths[index - 1] / 2;
  stage added;
  for (std::int64_t i = 0; i <= config_.residual_blocks; ++i) {
    added.residuals.push_back(add_layer<causal_residual>(
        *this, source, path + ".resnets." + std::to_string(i), inputs, width));
    inputs = width;
  }
  if (index < config_.upsamplings.size()) {
    added.up = add_layer<upsampler>(*this, source, path + ".upsamplers.0", width,
                                    config_.upsamplings[index]);
  }
  return added;
}

at::Tensor wan_decoder::scaled(const at::Tensor& latents) const {
  return latents * a_number_a_channel(config_.latents_deviation, latents.device()) +
         a_number_a_channel(config_.latents_mean, latents.device());
}

at::Tensor wan_decoder::decode_next(const at::Tensor& latent, frame_memory& past) const {
  auto hidden = conv_in_->forward(post_quant_conv_->forward(latent, past), past);
  hidden = middle_in_->forward(hidden, past);
  hidden = attention_->forward(hidden);
  hidden = middle_out_->forward(hidden, past);
  for (const auto& [residuals, up] : stages_) {
    for (const auto& residual : residuals) {
      hidden = residual->forward(hidden, past);
    }
    if (up) {
      hidden = up->forward(hidden, past);
    }
  }
  return conv_out_->forward(norm_out_->activated(hidden), past);
}

at::Tensor wan_decoder::decode(const at::Tensor& latents) const {
  const auto latent_frames = latents.size(2);
  const auto frames = (latent_frames - 1) * config_.frames_per_latent() + 1;
  auto pictures = at::empty({frames, colours, latents.size(3) * config_.pixels_per_latent(),
                             latents.size(4) * config_.pixels_per_latent()},
                            latents.options().dtype(at::kFloat));
  frame_memory past;
  std::int64_t done = 0;
  for (std::int64_t i = 0; i < latent_frames; ++i) {
    const auto next = decode_next(latents.narrow(2, i, 1), past);
    pictures.narrow(0, done, next.size(2)).copy_(next.squeeze(0).transpose(0, 1));
    done += next.size(2);
    past.first_frame_ended();
  }
  return pictures.clamp_(-1, 1);
}

} // namespace ferry
