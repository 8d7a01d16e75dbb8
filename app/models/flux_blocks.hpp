// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/hookable.hpp>
#include <ferry/torch/tensor_visit.hpp>

#include "models/flux_config.hpp"
#include "models/layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <tuple>

namespace ferry {

/// What one block hands to the next: the text's tokens and the image's.
struct flux_tokens {
  at::Tensor text;  ///< `[batch, text tokens, width]`
  at::Tensor image; ///< `[batch, image tokens, width]`
};

/// Queries, keys and values, `[batch, tokens, heads, head_width]`.
struct flux_heads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

/// The layers under a block's `attn` that make the heads of one kind of token. Queries and keys are
/// normed, each head by itself.
class flux_projection {
public:
  struct names {
    std::string_view q, k, v, norm_q, norm_k;
  };

  flux_projection(torch::nn::Module& block, const weights& source, const flux_config& config,
                  const names& called);

  [[nodiscard]] flux_heads forward(const at::Tensor& input) const;

private:
  std::int64_t heads_;
  std::shared_ptr<linear> q_;
  std::shared_ptr<linear> k_;
  std::shared_ptr<linear> v_;
  std::shared_ptr<rms_norm> norm_q_;
  std::shared_ptr<rms_norm> norm_k_;
};

/// A block of `transformer_blocks`: text and image each have their own weights and meet in one
/// attention.
class flux_double_block final : public torch::nn::Module, public hookable {
public:
  flux_double_block(const weights& source, const flux_config& config);

  /// @param conditioning `[batch, width]`, by which both are shifted, scaled and gated
  /// @param rotary `[1, text tokens + image tokens, 1, head_width / 2]`, complex
  [[nodiscard]] flux_tokens forward(const flux_tokens& tokens, const at::Tensor& conditioning,
                                    const at::Tensor& rotary) const;

private:
  /// The layers that one kind of token has to itself.
  struct side {
    std::shared_ptr<linear> modulation;
    std::shared_ptr<linear> out;
    std::shared_ptr<linear> up;
    std::shared_ptr<linear> down;
  };
  struct side_names {
    std::string_view modulation, out, ffn;
  };

  [[nodiscard]] side make_side(const weights& source, const flux_config& config,
                               const side_names& called);
  [[nodiscard]] at::Tensor advance(const side& layers, const at::Tensor& tokens,
                                   const at::Tensor& mixed, at::TensorList modulation) const;

  flux_projection image_heads_;
  flux_projection text_heads_;
  side image_;
  side text_;
};

/// A block of `single_transformer_blocks`: text and image are one row of tokens; attention and
/// feed-forward see the same input.
class flux_single_block final : public torch::nn::Module, public hookable {
public:
  flux_single_block(const weights& source, const flux_config& config);

  /// As that of `flux_double_block`. What it returns are views of one tensor.
  [[nodiscard]] flux_tokens forward(const flux_tokens& tokens, const at::Tensor& conditioning,
                                    const at::Tensor& rotary) const;

private:
  flux_projection heads_;
  std::shared_ptr<linear> modulation_;
  std::shared_ptr<linear> up_;
  std::shared_ptr<linear> out_;
};

/// Shows hooks the tensors that a block takes and returns.
template <>
struct tensor_members<flux_tokens> {
  static auto of(flux_tokens& value) { return std::tie(value.text, value.image); }
};

} // namespace ferry
