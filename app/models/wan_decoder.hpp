// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/hookable.hpp>

#include "models/component_config.hpp"
#include "models/wan_decoder_layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ferry {

/// What `config.json` says about the decoder of an `AutoencoderKLWan`.
struct wan_decoder_config {
  std::int64_t channels = 0;           ///< Of a latent.
  std::vector<std::int64_t> widths;    ///< Of the stages, from the latents to the pictures.
  std::vector<upsampling> upsamplings; ///< After each stage but the last.
  std::int64_t residual_blocks = 0;    ///< In a stage.
  std::vector<double> latents_mean;    ///< A number a channel.
  std::vector<double> latents_deviation;

  [[nodiscard]] std::int64_t pixels_per_latent() const noexcept;
  [[nodiscard]] std::int64_t frames_per_latent() const noexcept;
};

/// Reads the fields of an `AutoencoderKLWan`. What is missing or odd is a problem of `file`; so are
/// averaging shortcuts, attention between the stages, and pictures in patches.
[[nodiscard]] wan_decoder_config read_wan_decoder_config(component_config& file);

/// The decoding half of Wan's causal autoencoder: latents in, pictures out.
///
/// Works one latent frame at a time, so that only the pictures grow with the length of a video. The
/// first latent frame becomes one picture, each other `frames_per_latent`.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in. The encoding half of a checkpoint is passed over.
class wan_decoder final : public torch::nn::Module, public hookable {
public:
  wan_decoder(const weights& source, const wan_decoder_config& config);

  /// Returns latents as `decode` takes them: with the mean and deviation of each channel that
  /// denoising does without.
  [[nodiscard]] at::Tensor scaled(const at::Tensor& latents) const;

  /// Returns pictures, `[frames, 3, height, width]`, float32 from -1 to 1.
  /// @param latents `[1, channels, frames, rows, columns]`, scaled
  [[nodiscard]] at::Tensor decode(const at::Tensor& latents) const;

private:
  struct stage {
    std::vector<std::shared_ptr<causal_residual>> residuals;
    std::shared_ptr<upsampler> up; ///< Null in the last stage.
  };

  [[nodiscard]] stage add_stage(const weights& source, std::size_t index);

  /// Returns the pictures of the next latent frame, `[1, 3, frames, height, width]`.
  [[nodiscard]] at::Tensor decode_next(const at::Tensor& latent, frame_memory& past) const;

  wan_decoder_config config_;
  std::shared_ptr<causal_conv> post_quant_conv_;
  std::shared_ptr<causal_conv> conv_in_;
  std::shared_ptr<causal_residual> middle_in_;
  std::shared_ptr<frame_attention> attention_;
  std::shared_ptr<causal_residual> middle_out_;
  std::vector<stage> stages_;
  std::shared_ptr<channel_norm> norm_out_;
  std::shared_ptr<causal_conv> conv_out_;
};

} // namespace ferry
