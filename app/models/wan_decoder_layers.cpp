// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_decoder_layers.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace ferry {
namespace {

/// `[1, channels, frames, ...]` as `[frames, channels, ...]`, and back.
at::Tensor frames_of(const at::Tensor& video) {
  return video.squeeze(0).transpose(0, 1);
}

at::Tensor video_of(const at::Tensor& frames) {
  return frames.transpose(0, 1).unsqueeze(0);
}

/// Puts `input` behind the `count` frames that came before it, and remembers its own last ones.
at::Tensor behind_past(const at::Tensor& input, std::int64_t count, at::Tensor& past) {
  auto shape = input.sizes().vec();
  shape[2] = count;
  const auto before = past.defined() ? past : at::zeros(shape, input.options());
  auto all = at::cat({before, input}, 2);
  past = all.narrow(2, input.size(2), count).clone();
  return all;
}

} // namespace

causal_conv::causal_conv(const weights& source, std::int64_t inputs, std::int64_t outputs,
                         kernel size)
    : size_{size},
      weight_{register_parameter(
          "weight", source.take("weight", {outputs, inputs, size[0], size[1], size[2]}), false)},
      bias_{register_parameter("bias", source.take("bias", {outputs}), false)} {}

at::Tensor causal_conv::forward(const at::Tensor& input, frame_memory& past) const {
  auto frames = input.to(weight_.scalar_type());
  if (size_[0] > 1) {
    frames = behind_past(frames, size_[0] - 1, past.of(*this));
  }
  const std::array<std::int64_t, 3> padding{0, size_[1] / 2, size_[2] / 2};
  return at::conv3d(frames, weight_, bias_, 1, padding);
}

frame_conv::frame_conv(const weights& source, std::int64_t inputs, std::int64_t outputs,
                       std::int64_t size)
    : size_{size}, weight_{register_parameter(
                       "weight", source.take("weight", {outputs, inputs, size, size}), false)},
      bias_{register_parameter("bias", source.take("bias", {outputs}), false)} {}

at::Tensor frame_conv::forward(const at::Tensor& frames) const {
  return at::conv2d(frames.to(weight_.scalar_type()), weight_, bias_, 1, size_ / 2);
}

channel_norm::channel_norm(const weights& source, std::int64_t width, std::size_t dimensions)
    : length_{std::sqrt(static_cast<double>(width))} {
  std::vector<std::int64_t> shape(dimensions, 1);
  shape[0] = width;
  gamma_ = register_parameter("gamma", source.take("gamma", shape), false);
}

at::Tensor channel_norm::forward(const at::Tensor& input) const {
  constexpr double least = 1e-12;
  const auto norm = at::linalg_vector_norm(input, 2, {1}, true).clamp_min_(least);
  return (input / norm).mul_(gamma_ * length_);
}

at::Tensor channel_norm::activated(const at::Tensor& input) const {
  auto normed = forward(input);
  return at::silu_(normed);
}

causal_residual::causal_residual(const weights& source, std::int64_t inputs, std::int64_t outputs) {
  constexpr causal_conv::kernel wide{3, 3, 3};
  constexpr std::size_t dimensions = 4;
  norm1_ = add_layer<channel_norm>(*this, source, "norm1", inputs, dimensions);
  conv1_ = add_layer<causal_conv>(*this, source, "conv1", inputs, outputs, wide);
  norm2_ = add_layer<channel_norm>(*this, source, "norm2", outputs, dimensions);
  conv2_ = add_layer<causal_conv>(*this, source, "conv2", outputs, outputs, wide);
  if (inputs != outputs) {
    constexpr causal_conv::kernel point{1, 1, 1};
    shortcut_ = add_layer<causal_conv>(*this, source, "conv_shortcut", inputs, outputs, point);
  }
}

at::Tensor causal_residual::forward(const at::Tensor& input, frame_memory& past) const {
  auto hidden = conv1_->forward(norm1_->activated(input), past);
  hidden = conv2_->forward(norm2_->activated(hidden), past);
  return hidden.add_(shortcut_ ? shortcut_->forward(input, past) : input);
}

frame_attention::frame_attention(const weights& source, std::int64_t width) {
  constexpr std::int64_t point = 1;
  constexpr std::size_t dimensions = 3;
  norm_ = add_layer<channel_norm>(*this, source, "norm", width, dimensions);
  to_qkv_ = add_layer<frame_conv>(*this, source, "to_qkv", width, 3 * width, point);
  projection_ = add_layer<frame_conv>(*this, source, "proj", width, width, point);
}

at::Tensor frame_attention::forward(const at::Tensor& input) const {
  const auto frames = frames_of(input);
  const auto qkv = to_qkv_->forward(norm_->forward(frames)).flatten(2).transpose(1, 2).chunk(3, -1);
  const auto mixed = at::scaled_dot_product_attention(qkv[0].unsqueeze(1), qkv[1].unsqueeze(1),
                                                      qkv[2].unsqueeze(1));
  const auto pixels = mixed.squeeze(1).transpose(1, 2).reshape(frames.sizes());
  return video_of(projection_->forward(pixels)) + input;
}

upsampler::upsampler(const weights& source, std::int64_t width, upsampling kind) {
  constexpr std::int64_t size = 3;
  if (kind == upsampling::space_and_time) {
    constexpr causal_conv::kernel along_time{3, 1, 1};
    time_conv_ = add_layer<causal_conv>(*this, source, "time_conv", width, 2 * width, along_time);
  }
  conv_ = add_layer<frame_conv>(*this, source, "resample.1", width, width / 2, size);
}

at::Tensor upsampler::forward(const at::Tensor& input, frame_memory& past) const {
  auto video = input;
  if (time_conv_ && !past.at_first_frame()) {
    // Half of the channels are the even frames, half the odd ones.
    video = time_conv_->forward(video, past).unflatten(1, {2, -1}).transpose(1, 2);
    video = video.transpose(2, 3).flatten(2, 3);
  }
  const auto frames = frames_of(video);
  const std::array<std::int64_t, 2> doubled{2 * frames.size(2), 2 * frames.size(3)};
  return video_of(conv_->forward(at::upsample_nearest2d(frames, doubled)));
}

} // namespace ferry
