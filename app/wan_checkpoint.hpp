// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include "checkpoint_plan.hpp"
#include "wan_vae_checkpoint.hpp"

#include <cstdint>
#include <vector>

namespace ferry {

/// The size of a Wan text-to-video pipeline. The names are those of the command line.
struct wan_shape {
  std::int64_t blocks = 8;
  std::int64_t hidden = 256; ///< A multiple of `head_dim`.
  std::int64_t head_dim = 128;
  std::int64_t ffn = 1024;
  std::int64_t denoisers = 1; ///< With 2, the second takes over below 0.875 of the noise.

  std::int64_t text_blocks = 2;
  std::int64_t text_hidden = 64;
  std::int64_t text_head_dim = 64;
  std::int64_t text_heads = 1;
  std::int64_t text_ffn = 128;
  std::int64_t vocabulary = 256;

  wan_vae_shape vae;
  dtype type = dtype::bf16;

  friend bool operator==(const wan_shape&, const wan_shape&) = default;
};

[[nodiscard]] std::vector<tensor_declaration> wan_denoiser_tensors(const wan_shape& shape);
[[nodiscard]] std::vector<tensor_declaration> wan_encoder_tensors(const wan_shape& shape);

/// Returns the pipeline of that size, without an autoencoder where that has no width.
[[nodiscard]] checkpoint_plan plan_checkpoint(const wan_shape& shape);

} // namespace ferry
