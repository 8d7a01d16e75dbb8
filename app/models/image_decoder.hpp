// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/hookable.hpp>

#include "models/component_config.hpp"
#include "models/layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ferry {

/// What `vae/config.json` says about the decoding half of an image autoencoder.
struct image_decoder_config {
  std::int64_t latent_channels = 0;
  std::vector<std::int64_t> widths; ///< Of each resolution, the finest first.
  std::int64_t blocks_per_resolution = 0;
  std::int64_t norm_groups = 0;
  bool attention = true;   ///< Whether the coarsest resolution has attention.
  bool post_quant = false; ///< Whether a 1x1 convolution comes first.
  double scaling_factor = 1;
  double shift_factor = 0;

  /// Returns how many pixels a latent stands for, along each axis.
  [[nodiscard]] std::int64_t pixels_per_latent() const noexcept {
    return std::int64_t{1} << (widths.size() - 1);
  }
};

/// Reads the fields of an `AutoencoderKL`. What is missing or odd is a problem of `file`.
[[nodiscard]] image_decoder_config read_image_decoder_config(component_config& file);

/// A convolution that keeps rows and columns. Computes in the dtype of its weight.
class convolution final : public torch::nn::Module {
public:
  /// @param kernel rows and columns, odd
  convolution(const weights& source, std::int64_t inputs, std::int64_t outputs,
              std::int64_t kernel);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Norms groups of channels together.
class group_norm final : public torch::nn::Module {
public:
  group_norm(const weights& source, std::int64_t width, std::int64_t groups);

  /// @param input `[batch, width, ...]`
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  std::int64_t groups_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Two convolutions beside a shortcut.
class residual_block final : public torch::nn::Module {
public:
  residual_block(const weights& source, std::int64_t inputs, std::int64_t outputs,
                 std::int64_t groups);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  std::shared_ptr<group_norm> norm_in_;
  std::shared_ptr<convolution> in_;
  std::shared_ptr<group_norm> norm_out_;
  std::shared_ptr<convolution> out_;
  std::shared_ptr<convolution> shortcut_; ///< Null where the width stays.
};

/// Attention of every pixel to every pixel, one head, beside a shortcut.
class pixel_attention final : public torch::nn::Module {
public:
  pixel_attention(const weights& source, std::int64_t width, std::int64_t groups);

  /// @param input `[batch, width, rows, columns]`
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  std::shared_ptr<group_norm> norm_;
  std::shared_ptr<linear> to_q_;
  std::shared_ptr<linear> to_k_;
  std::shared_ptr<linear> to_v_;
  std::shared_ptr<linear> to_out_;
};

/// The decoding half of an image autoencoder. What a checkpoint has under `encoder` and
/// `quant_conv` is not read.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in.
class image_decoder final : public torch::nn::Module, public hookable {
public:
  image_decoder(const weights& source, const image_decoder_config& config);

  /// Returns an image, `[batch, 3, rows, columns]`, float32, around -1 to 1.
  /// @param latents `[batch, latent_channels, rows, columns]`, with scale and shift taken back
  [[nodiscard]] at::Tensor decode(const at::Tensor& latents) const;

private:
  /// The blocks of one resolution, and the convolution after doubling it.
  struct level {
    std::vector<std::shared_ptr<residual_block>> blocks;
    std::shared_ptr<convolution> doubled; ///< Null at the finest.
  };

  void add_middle(const weights& source, const image_decoder_config& config);
  void add_levels(const weights& source, const image_decoder_config& config);

  std::shared_ptr<convolution> post_quant_; ///< Null where the model has none.
  std::shared_ptr<convolution> in_;
  std::shared_ptr<residual_block> middle_in_;
  std::shared_ptr<pixel_attention> attention_; ///< Null where the model has none.
  std::shared_ptr<residual_block> middle_out_;
  std::vector<level> levels_; ///< The coarsest first.
  std::shared_ptr<group_norm> norm_out_;
  std::shared_ptr<convolution> out_;
};

} // namespace ferry
