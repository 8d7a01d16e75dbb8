// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/component_config.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ferry {

/// What `scheduler/scheduler_config.json` says.
struct flow_match_config {
  std::int64_t train_timesteps = 1000;
  double shift = 1.0; ///< Above 1: more steps at high noise.
};

/// Reads the fields of a `FlowMatchEulerDiscreteScheduler`. Variants of the schedule that are not
/// computed here are problems of `file`.
[[nodiscard]] flow_match_config read_flow_match_config(component_config& file);

/// The noise levels of one request and Euler's step between them. A value.
class flow_match_euler {
public:
  /// @pre `steps >= 1`
  flow_match_euler(const flow_match_config& config, std::size_t steps);

  [[nodiscard]] std::size_t steps() const noexcept { return timesteps_.size(); }

  /// Returns the noise levels, falling, with a final 0: one more than there are steps.
  [[nodiscard]] const std::vector<float>& sigmas() const noexcept { return sigmas_; }

  /// Returns what the denoiser is told at each step.
  [[nodiscard]] const std::vector<float>& timesteps() const noexcept { return timesteps_; }

  /// Returns the latents after step `index`, float32.
  [[nodiscard]] at::Tensor step(std::size_t index, const at::Tensor& velocity,
                                const at::Tensor& latents) const;

private:
  std::vector<float> sigmas_;
  std::vector<float> timesteps_;
};

} // namespace ferry
