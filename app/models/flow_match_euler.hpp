// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/component_config.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ferry {

/// A shift that grows with the number of tokens in an image: it goes through two points.
struct dynamic_shift {
  enum class growth : std::uint8_t { exponential, linear };

  double base_tokens = 256;
  double base_shift = 0.5;
  double max_tokens = 4096;
  double max_shift = 1.15;
  growth form = growth::exponential; ///< Whether the line gives the shift, or its logarithm.

  /// Returns the shift, as in `flow_match_config`, for an image of `tokens`.
  [[nodiscard]] double at(std::int64_t tokens) const noexcept;
};

/// What `scheduler/scheduler_config.json` says.
struct flow_match_config {
  std::int64_t train_timesteps = 1000;
  double shift = 1.0;                                  ///< Above 1: more steps at high noise.
  std::optional<dynamic_shift> dynamic = std::nullopt; ///< Takes the place of `shift`.
};

/// Reads the fields of a `FlowMatchEulerDiscreteScheduler`. Variants of the schedule that are not
/// computed here are problems of `file`.
[[nodiscard]] flow_match_config read_flow_match_config(component_config& file);

/// The noise levels of one request and Euler's step between them. A value.
class flow_match_euler {
public:
  /// @pre `steps >= 1`; no dynamic shift
  flow_match_euler(const flow_match_config& config, std::size_t steps);

  /// For an image of `tokens`. With a dynamic shift the levels before it are those that image
  /// pipelines ask for, evenly from 1 to `1 / steps`.
  /// @pre `steps >= 1`
  flow_match_euler(const flow_match_config& config, std::size_t steps, std::int64_t tokens);

  [[nodiscard]] std::size_t steps() const noexcept { return timesteps_.size(); }

  /// Returns the noise levels, falling, with a final 0: one more than there are steps.
  [[nodiscard]] const std::vector<float>& sigmas() const noexcept { return sigmas_; }

  /// Returns what the denoiser is told at each step.
  [[nodiscard]] const std::vector<float>& timesteps() const noexcept { return timesteps_; }

  /// Returns the latents after step `index`, float32.
  [[nodiscard]] at::Tensor step(std::size_t index, const at::Tensor& velocity,
                                const at::Tensor& latents) const;

private:
  void add_level(float sigma, std::int64_t train_timesteps);
  void add_even_levels(const flow_match_config& config, std::size_t steps);

  std::vector<float> sigmas_;
  std::vector<float> timesteps_;
};

} // namespace ferry
