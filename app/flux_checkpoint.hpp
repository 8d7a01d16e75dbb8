// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include "checkpoint_plan.hpp"
#include "flux_vae_checkpoint.hpp"
#include "t5_checkpoint.hpp"

#include <cstdint>
#include <vector>

namespace ferry {

/// The size of CLIP's text encoder.
struct clip_shape {
  std::int64_t blocks = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t ffn = 128;
  std::int64_t vocabulary = 256;
  std::int64_t positions = 77;

  friend bool operator==(const clip_shape&, const clip_shape&) = default;
};

/// The size of a FLUX text-to-image pipeline.
struct flux_shape {
  std::int64_t double_blocks = 3;
  std::int64_t single_blocks = 6;
  std::int64_t hidden = 256;   ///< A multiple of `head_dim`.
  std::int64_t head_dim = 128; ///< Even, at least 6.

  clip_shape clip;
  t5_shape t5;
  flux_vae_shape vae;
  dtype type = dtype::bf16;

  friend bool operator==(const flux_shape&, const flux_shape&) = default;
};

[[nodiscard]] std::vector<tensor_declaration> flux_denoiser_tensors(const flux_shape& shape);
[[nodiscard]] std::vector<tensor_declaration> clip_tensors(const clip_shape& shape, dtype type);

/// Returns the pipeline of that size, without an autoencoder where that has no width.
[[nodiscard]] checkpoint_plan plan_checkpoint(const flux_shape& shape);

} // namespace ferry
