// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hookable.hpp>

#include "models/denoiser_pass.hpp"
#include "models/flux_blocks.hpp"
#include "models/flux_config.hpp"
#include "models/layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace ferry {

/// Told what each block of a list returned, by its number. May be empty.
using flux_observer = std::function<void(std::size_t index, const flux_tokens& tokens)>;

/// Who is told of the blocks of a pass.
struct flux_watch {
  flux_observer double_block = {};
  flux_observer single_block = {};
  block_skip skips = {};
};

/// What the denoiser is asked in one step.
struct flux_input {
  at::Tensor image;                   ///< Packed latents, `[batch, rows * columns, in_channels]`.
  at::Tensor text;                    ///< `[batch, text tokens, text_width]`
  at::Tensor pooled;                  ///< `[batch, pooled_width]`
  std::array<std::int64_t, 2> grid{}; ///< Rows and columns of packed latents.
  double timestep = 0;                ///< Between 0 and the number of training steps.
  double guidance = 0;                ///< Passed over by a denoiser that is not told.
};

/// Two layers that make conditioning from something, with an activation between.
class flux_embedder final : public torch::nn::Module {
public:
  flux_embedder(const weights& source, std::int64_t inputs, std::int64_t width);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  std::shared_ptr<linear> in_;
  std::shared_ptr<linear> out_;
};

/// The denoiser of the FLUX family. Its blocks are the lists at `transformer_blocks` and, after
/// them, `single_transformer_blocks`.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in: rotation excepted, which is float32.
class flux_transformer final : public torch::nn::Module, public hookable {
public:
  using input = flux_input;
  using watch = flux_watch;

  /// A pass on its way through the blocks.
  struct passing {
    flux_tokens tokens;
    at::Tensor conditioning;
    at::Tensor rotary;
    const flux_watch* told = nullptr;
    std::exception_ptr failed = nullptr;

    [[nodiscard]] bool skips(std::size_t index) const { return told->skips && told->skips(index); }
    void run(const block_ref<flux_double_block>& block, std::size_t index);
    void run(const block_ref<flux_single_block>& block, std::size_t index);
  };

  flux_transformer(const weights& source, const flux_config& config);

  [[nodiscard]] const flux_config& config() const noexcept { return config_; }

  /// Returns the predicted velocity, shaped like `asked.image` with `out_channels`.
  [[nodiscard]] at::Tensor forward(const flux_input& asked, const flux_watch& told) const;

  // The parts of a pass, see `denoiser_pass`. What is told outlives it.
  [[nodiscard]] passing begin(const flux_input& asked, const flux_watch& told) const;
  void run(std::span<passing* const> passes) const;
  [[nodiscard]] at::Tensor end(const passing& pass) const;

private:
  [[nodiscard]] at::Tensor conditioning(const flux_input& asked) const;
  [[nodiscard]] at::Tensor turns(const flux_input& asked) const;

  flux_config config_;
  std::shared_ptr<linear> image_in_;
  std::shared_ptr<linear> text_in_;
  std::shared_ptr<flux_embedder> time_;
  std::shared_ptr<flux_embedder> guidance_; ///< Null where the model is not told the guidance.
  std::shared_ptr<flux_embedder> pooled_;
  std::shared_ptr<block_list<flux_double_block>> double_blocks_;
  std::shared_ptr<block_list<flux_single_block>> single_blocks_;
  std::shared_ptr<linear> modulation_;
  std::shared_ptr<linear> projection_;
};

/// Shows hooks the tensors of a step.
template <>
struct tensor_members<flux_input> {
  static auto of(flux_input& value) { return std::tie(value.image, value.text, value.pooled); }
};

} // namespace ferry
