// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace ferry {

/// The size of Wan's autoencoder. That of the real one is a width of 96.
struct wan_vae_shape {
  std::int64_t width = 8; ///< Of the stage next to the pictures, even; 0 for no autoencoder.
  std::array<std::int64_t, 4> multipliers{1, 2, 4, 4}; ///< Of the width, stage by stage.
  std::int64_t residual_blocks = 2;                    ///< In a stage.

  friend bool operator==(const wan_vae_shape&, const wan_vae_shape&) = default;
};

/// Returns the tensors of both halves. None if the width is 0.
[[nodiscard]] std::vector<tensor_declaration> wan_vae_tensors(const wan_vae_shape& shape,
                                                              dtype type);

/// Returns what its `config.json` says.
[[nodiscard]] nlohmann::json wan_vae_config(const wan_vae_shape& shape);

} // namespace ferry
