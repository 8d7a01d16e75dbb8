// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/component_config.hpp"

#include <array>
#include <cstdint>

namespace ferry {

/// What a denoiser's `config.json` says about a FLUX transformer.
struct flux_config {
  std::int64_t in_channels = 0; ///< Of a token: those of four latents.
  std::int64_t out_channels = 0;
  std::int64_t heads = 0;
  std::int64_t head_width = 0;
  std::int64_t double_blocks = 0;
  std::int64_t single_blocks = 0;
  std::int64_t text_width = 0;
  std::int64_t pooled_width = 0;
  std::array<std::int64_t, 3> rotary_channels{}; ///< Of a head, for each axis of a position.
  bool guidance = false;                         ///< Whether it is told the guidance.

  static constexpr std::int64_t frequencies = 256; ///< Width of the code of a timestep.
  static constexpr double epsilon = 1e-6;

  [[nodiscard]] std::int64_t width() const noexcept { return heads * head_width; }
  [[nodiscard]] std::int64_t ffn_width() const noexcept { return 4 * width(); }
};

/// Reads the fields of a `FluxTransformer2DModel`. What is missing or odd is a problem of `file`.
[[nodiscard]] flux_config read_flux_config(component_config& file);

} // namespace ferry
