// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace ferry {

/// The size of FLUX's autoencoder. That of the real one is a width of 128.
struct flux_vae_shape {
  std::int64_t width = 8; ///< Of the stage next to the picture, even; 0 for no autoencoder.
  std::vector<std::int64_t> multipliers{1, 2, 4, 4}; ///< Of the width, stage by stage.
  std::int64_t residual_blocks = 2;                  ///< In a stage of the encoder.
  std::int64_t latent_channels = 16;
  std::int64_t groups = 2; ///< Of channels that are normed together.

  friend bool operator==(const flux_vae_shape&, const flux_vae_shape&) = default;
};

/// Returns the tensors of both halves. None if the width is 0.
[[nodiscard]] std::vector<tensor_declaration> flux_vae_tensors(const flux_vae_shape& shape,
                                                               dtype type);

/// Returns what its `config.json` says.
[[nodiscard]] nlohmann::json flux_vae_config(const flux_vae_shape& shape);

} // namespace ferry
