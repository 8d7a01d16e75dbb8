// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hookable.hpp>
#include <ferry/torch/tensor_visit.hpp>

#include "models/component_config.hpp"
#include "models/layers.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <tuple>

namespace ferry {

/// What an encoder's `config.json` says about CLIP's text half.
struct clip_config {
  enum class activation : std::uint8_t { gelu, quick_gelu };

  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_width = 0;
  std::int64_t layers = 0;
  std::int64_t max_positions = 0; ///< Most ids of a prompt.
  std::int64_t end_id = 0;        ///< The id that ends a prompt.
  activation ffn_activation = activation::quick_gelu;
  double epsilon = 0;
};

/// Reads the fields of a `CLIPTextModel`. What is missing or odd is a problem of `file`.
[[nodiscard]] clip_config read_clip_config(component_config& file);

/// One layer of the encoder: causal self-attention, then a feed-forward.
class clip_block final : public torch::nn::Module, public hookable {
public:
  clip_block(const weights& source, const clip_config& config);

  /// @param hidden `[batch, tokens, width]`
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden) const;

private:
  [[nodiscard]] at::Tensor attend(const at::Tensor& normed) const;
  [[nodiscard]] at::Tensor activate(const at::Tensor& inner) const;

  std::int64_t heads_;
  clip_config::activation activation_;
  std::shared_ptr<layer_norm_f32> attention_norm_;
  std::shared_ptr<linear> q_;
  std::shared_ptr<linear> k_;
  std::shared_ptr<linear> v_;
  std::shared_ptr<linear> out_;
  std::shared_ptr<layer_norm_f32> ffn_norm_;
  std::shared_ptr<linear> up_;
  std::shared_ptr<linear> down_;
};

/// CLIP's text encoder, without its projection. Its blocks are the list at `encoder.layers`, also
/// where the checkpoint has `text_model.` in front of every name.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in: norms excepted, which are float32 inside.
class clip_encoder final : public torch::nn::Module, public hookable {
public:
  struct output {
    at::Tensor hidden; ///< The last hidden state, `[batch, tokens, width]`.
    at::Tensor pooled; ///< That of the token that ends the prompt, `[batch, width]`.
  };

  clip_encoder(const weights& source, const clip_config& config);

  /// @param ids `[batch, tokens]`, int64, each below the vocabulary, at most `max_positions` tokens
  [[nodiscard]] output forward(const at::Tensor& ids) const;

private:
  [[nodiscard]] at::Tensor ends(const at::Tensor& ids) const;

  clip_config config_;
  std::shared_ptr<embedding> tokens_;
  std::shared_ptr<embedding> positions_;
  std::shared_ptr<block_list<clip_block>> blocks_;
  std::shared_ptr<layer_norm_f32> final_norm_;
};

/// Shows hooks the tensors of a result.
template <>
struct tensor_members<clip_encoder::output> {
  static auto of(clip_encoder::output& value) { return std::tie(value.hidden, value.pooled); }
};

} // namespace ferry
