// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/schedule_model.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace ferry::bench {

/// The blocks of a real denoiser in bf16.
struct model_shape {
  const char* name;
  std::vector<double> megabytes; ///< Of each block.
};

/// Those of docs/performance.md: Wan2.2-A14B, FLUX.1-dev, HunyuanVideo and Qwen-Image.
[[nodiscard]] const std::array<model_shape, 4>& model_shapes();

/// PCIe 5, in bytes a second: what the shapes travel over.
inline constexpr double shapes_link = 53e9;

/// Returns what its blocks take where each computes `ratio` times as long as it travels.
[[nodiscard]] std::vector<block_cost> costs_of(const model_shape& streamed, double ratio);

/// Returns how long the last of `steps` runs through its blocks took, in seconds, streamed by the
/// real runtime on a simulated device whose blocks compute as `costs` says. `how` gives the slots
/// and the passes that share each fetch.
/// @throws ferry_error also if the device saw a race
[[nodiscard]] double measured_step(const model_shape& streamed,
                                   const std::vector<block_cost>& costs,
                                   const schedule_options& how, int steps);

} // namespace ferry::bench
