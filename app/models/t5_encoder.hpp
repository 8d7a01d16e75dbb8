// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hookable.hpp>

#include "models/component_config.hpp"
#include "models/layers.hpp"
#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace ferry {

/// Where the bias of relative positions comes from.
enum class t5_positions : std::uint8_t {
  shared,    ///< From a table in the first block, for all of them: T5 1.1.
  per_block, ///< From a table in each block: UMT5.
};

/// What an encoder's `config.json` says about a T5 1.1 or UMT5 encoder.
struct t5_config {
  t5_positions positions = t5_positions::shared;
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t head_width = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_width = 0;
  std::int64_t layers = 0;
  std::int64_t buckets = 0;      ///< Classes of relative distance, both directions together.
  std::int64_t max_distance = 0; ///< From here on all distances are one class.
  double epsilon = 0;
};

/// Reads the fields of a `T5EncoderModel` or, with positions per block, of a `UMT5EncoderModel`.
/// What is missing or odd is a problem of `file`.
[[nodiscard]] t5_config read_t5_config(component_config& file, t5_positions positions);

/// One layer of the encoder: self-attention with a relative position bias, then a gated
/// feed-forward.
class t5_block final : public torch::nn::Module, public hookable {
public:
  enum class table : std::uint8_t { own, none };

  t5_block(const weights& source, const t5_config& config, table distances);

  /// Returns the new hidden state and the position bias it used, `[1, heads, tokens, tokens]`.
  /// @param hidden `[batch, tokens, width]`
  /// @param distances `[tokens, tokens]`, the class of each relative position
  /// @param inherited the position bias of the block before; a block with its own table ignores it
  /// @param mask `[batch, 1, 1, tokens]`, added to the attention scores
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& hidden,
                                                          const at::Tensor& distances,
                                                          const at::Tensor& inherited,
                                                          const at::Tensor& mask) const;

private:
  [[nodiscard]] at::Tensor attend(const at::Tensor& normed, const at::Tensor& bias) const;

  std::int64_t heads_;
  std::shared_ptr<t5_rms_norm> attention_norm_;
  std::shared_ptr<linear> q_;
  std::shared_ptr<linear> k_;
  std::shared_ptr<linear> v_;
  std::shared_ptr<linear> o_;
  std::shared_ptr<embedding> distance_bias_; ///< Null without a table.
  std::shared_ptr<t5_rms_norm> ffn_norm_;
  std::shared_ptr<linear> gate_;
  std::shared_ptr<linear> up_;
  std::shared_ptr<linear> down_;
};

/// The encoder half of T5 1.1 or UMT5. Its blocks are the list at `encoder.block`.
///
/// Its parameters are the tensors of the checkpoint themselves, in the checkpoint's dtype, which is
/// also what it computes in: norms and the softmax excepted, which are float32 inside.
class t5_encoder final : public torch::nn::Module, public hookable {
public:
  t5_encoder(const weights& source, const t5_config& config);

  /// Returns the last hidden state, `[batch, tokens, width]`.
  /// @param ids `[batch, tokens]`, int64, each below the vocabulary
  /// @param mask `[batch, tokens]`, 1 for a token that counts, 0 for padding
  [[nodiscard]] at::Tensor forward(const at::Tensor& ids, const at::Tensor& mask,
                                   const block_observer& observe) const;

private:
  t5_config config_;
  std::shared_ptr<embedding> tokens_;
  std::shared_ptr<block_list<t5_block>> blocks_;
  std::shared_ptr<t5_rms_norm> final_norm_;
};

} // namespace ferry
