// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hookable.hpp>

#include "models/component_config.hpp"
#include "models/denoiser_pass.hpp"
#include "models/layers.hpp"
#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <tuple>

namespace ferry {

/// What a denoiser's `config.json` says about a Wan transformer.
struct wan_config {
  std::array<std::int64_t, 3> patch{}; ///< Latent frames, rows and columns that make one token.
  std::int64_t heads = 0;
  std::int64_t head_width = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t text_width = 0;
  std::int64_t frequencies = 0; ///< Width of the sinusoidal code of a timestep.
  std::int64_t ffn_width = 0;
  std::int64_t layers = 0;
  std::int64_t max_positions = 0; ///< Most tokens along one axis of a latent.
  bool cross_attention_norm = false;
  double epsilon = 0;

  [[nodiscard]] std::int64_t width() const noexcept { return heads * head_width; }
  [[nodiscard]] std::int64_t patch_size() const noexcept { return patch[0] * patch[1] * patch[2]; }
};

/// Reads the fields of a `WanTransformer3DModel`. What is missing or odd is a problem of `file`;
/// image conditioning is one.
[[nodiscard]] wan_config read_wan_config(component_config& file);

/// Multi-head attention whose queries and keys are normed over all heads together.
class wan_attention final : public torch::nn::Module {
public:
  wan_attention(const weights& source, const wan_config& config);

  /// @param input `[batch, tokens, width]`, asks
  /// @param context `[batch, any, width]`, answers
  /// @param rotary `[1, tokens, 1, head_width / 2]`, complex; undefined for no rotation
  [[nodiscard]] at::Tensor forward(const at::Tensor& input, const at::Tensor& context,
                                   const at::Tensor& rotary) const;

private:
  std::int64_t heads_;
  std::shared_ptr<linear> to_q_;
  std::shared_ptr<linear> to_k_;
  std::shared_ptr<linear> to_v_;
  std::shared_ptr<linear> to_out_;
  std::shared_ptr<rms_norm> norm_q_;
  std::shared_ptr<rms_norm> norm_k_;
};

/// One layer of the denoiser: self-attention, attention to the text, feed-forward; the first and
/// the last shifted, scaled and gated by the timestep.
class wan_block final : public torch::nn::Module, public hookable {
public:
  wan_block(const weights& source, const wan_config& config);

  /// @param hidden `[batch, tokens, width]`
  /// @param text `[batch, text tokens, width]`
  /// @param modulation `[batch, 6, width]`, float32
  /// @param rotary as in `wan_attention`
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const at::Tensor& text,
                                   const at::Tensor& modulation, const at::Tensor& rotary) const;

private:
  std::int64_t width_;
  double epsilon_;
  at::Tensor scale_shift_table_;
  std::shared_ptr<wan_attention> self_attention_;
  std::shared_ptr<wan_attention> cross_attention_;
  std::shared_ptr<layer_norm_f32> cross_norm_; ///< Null where the model has none.
  std::shared_ptr<linear> up_;
  std::shared_ptr<linear> down_;
};

/// What the denoiser is asked in one pass.
struct wan_input {
  /// `[batch, in_channels, frames, rows, columns]`, the last three multiples of the patch.
  at::Tensor latents;
  double timestep = 0; ///< Between 0 and the number of training steps.
  at::Tensor text;     ///< `[batch, text tokens, text_width]`
};

/// Who is told of the blocks of a pass.
struct wan_watch {
  block_observer block = {};
  block_skip skips = {};
};

/// The denoiser of the Wan family. Its blocks are the list at `blocks`.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in: norms, modulation and the timestep's embedding excepted, which are
/// float32.
class wan_transformer final : public torch::nn::Module, public hookable {
public:
  using input = wan_input;
  using watch = wan_watch;

  /// A pass on its way through the blocks.
  struct passing {
    at::Tensor hidden;
    at::Tensor context;
    at::Tensor modulation;
    at::Tensor rotary;
    at::Tensor time;
    std::array<std::int64_t, 3> grid{};
    const wan_watch* told = nullptr;
    std::exception_ptr failed = nullptr;

    [[nodiscard]] bool skips(std::size_t index) const { return told->skips && told->skips(index); }
    void run(const block_ref<wan_block>& block, std::size_t index);
  };

  wan_transformer(const weights& source, const wan_config& config);

  [[nodiscard]] const wan_config& config() const noexcept { return config_; }

  /// Returns the predicted velocity, shaped like the latents with `out_channels`.
  [[nodiscard]] at::Tensor forward(const wan_input& asked, const wan_watch& told) const;

  // The parts of a pass, see `denoiser_pass`. What is told outlives it.
  [[nodiscard]] passing begin(const wan_input& asked, const wan_watch& told) const;
  void run(std::span<passing* const> passes) const;
  [[nodiscard]] at::Tensor end(const passing& pass) const;

private:
  [[nodiscard]] at::Tensor patches(const at::Tensor& latents) const;
  [[nodiscard]] at::Tensor unpatch(const at::Tensor& tokens, at::IntArrayRef grid) const;

  wan_config config_;
  at::Tensor patch_weight_;
  at::Tensor patch_bias_;
  at::Tensor scale_shift_table_;
  std::shared_ptr<linear> time_in_;
  std::shared_ptr<linear> time_out_;
  std::shared_ptr<linear> time_projection_;
  std::shared_ptr<linear> text_in_;
  std::shared_ptr<linear> text_out_;
  std::shared_ptr<block_list<wan_block>> blocks_;
  std::shared_ptr<linear> projection_;
};

/// Shows hooks the tensors of a pass.
template <>
struct tensor_members<wan_input> {
  static auto of(wan_input& value) { return std::tie(value.latents, value.text); }
};

} // namespace ferry
