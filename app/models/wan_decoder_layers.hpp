// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace ferry {

// Layers of Wan's autoencoder. Hidden values are `[1, channels, frames, rows, columns]`, a few
// frames at a time; a layer that looks back in time finds what it needs in a `frame_memory`.

/// What the layers of one decoding remember of the frames that have passed.
class frame_memory {
public:
  /// Returns the last frames that went into `layer`; undefined before the first.
  [[nodiscard]] at::Tensor& of(const torch::nn::Module& layer) { return past_[&layer]; }

  /// Returns whether the first latent frame is under way.
  [[nodiscard]] bool at_first_frame() const noexcept { return at_first_frame_; }
  void first_frame_ended() noexcept { at_first_frame_ = false; }

private:
  std::unordered_map<const torch::nn::Module*, at::Tensor> past_;
  bool at_first_frame_ = true;
};

/// A convolution over time, rows and columns that sees no later frame: it returns as many frames as
/// it gets, each from that frame and those before it. Rows and columns keep their number too.
class causal_conv final : public torch::nn::Module {
public:
  using kernel = std::array<std::int64_t, 3>; ///< Frames, rows, columns: odd numbers.

  causal_conv(const weights& source, std::int64_t inputs, std::int64_t outputs, kernel size);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input, frame_memory& past) const;

private:
  kernel size_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// A convolution of 3 x 3, or of single pixels, over each frame by itself.
class frame_conv final : public torch::nn::Module {
public:
  frame_conv(const weights& source, std::int64_t inputs, std::int64_t outputs, std::int64_t size);

  /// @param frames `[frames, channels, rows, columns]`
  [[nodiscard]] at::Tensor forward(const at::Tensor& frames) const;

private:
  std::int64_t size_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Scales each pixel's channels to the length that `width` ones have.
class channel_norm final : public torch::nn::Module {
public:
  /// @param dimensions of a pixel's channels and what follows them: 3 in frames, 4 in videos
  channel_norm(const weights& source, std::int64_t width, std::size_t dimensions);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

  /// Returns the SiLU of what `forward` returns.
  [[nodiscard]] at::Tensor activated(const at::Tensor& input) const;

private:
  double length_;
  at::Tensor gamma_;
};

/// Two causal convolutions around which the input passes by.
class causal_residual final : public torch::nn::Module {
public:
  causal_residual(const weights& source, std::int64_t inputs, std::int64_t outputs);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input, frame_memory& past) const;

private:
  std::shared_ptr<channel_norm> norm1_;
  std::shared_ptr<causal_conv> conv1_;
  std::shared_ptr<channel_norm> norm2_;
  std::shared_ptr<causal_conv> conv2_;
  std::shared_ptr<causal_conv> shortcut_; ///< Null where the width stays.
};

/// Attention with one head between the pixels of each frame.
class frame_attention final : public torch::nn::Module {
public:
  frame_attention(const weights& source, std::int64_t width);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  std::shared_ptr<channel_norm> norm_;
  std::shared_ptr<frame_conv> to_qkv_;
  std::shared_ptr<frame_conv> projection_;
};

enum class upsampling : std::uint8_t { space, space_and_time };

/// Doubles rows and columns, and frames where it is asked to, and halves the channels. The first
/// frame of all stays one.
class upsampler final : public torch::nn::Module {
public:
  upsampler(const weights& source, std::int64_t width, upsampling kind);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input, frame_memory& past) const;

private:
  std::shared_ptr<causal_conv> time_conv_; ///< Null where time stays.
  std::shared_ptr<frame_conv> conv_;
};

} // namespace ferry
