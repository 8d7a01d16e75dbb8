// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flow_match_euler.hpp"

#include <ferry/platform/error.hpp>

#include <ATen/ATen.h>

namespace ferry {
namespace {

template <class Number>
Number shifted(Number sigma, Number shift) {
  return shift * sigma / (1 + (shift - 1) * sigma);
}

} // namespace

flow_match_config read_flow_match_config(component_config& file) {
  flow_match_config config;
  config.train_timesteps = file.integer("num_train_timesteps", 1, 1'000'000, 1000);
  config.shift = file.positive("shift", 1.0);
  for (const auto* variant :
       {"use_dynamic_shifting", "use_karras_sigmas", "use_beta_sigmas", "use_exponential_sigmas",
        "invert_sigmas", "shift_terminal", "stochastic_sampling"}) {
    file.expect_off(variant);
  }
  return config;
}

// The reference shifts twice: once for the range, in float32, and once for the levels in it.
flow_match_euler::flow_match_euler(const flow_match_config& config, std::size_t steps) {
  FERRY_ASSERT(steps >= 1);
  const auto train = static_cast<double>(config.train_timesteps);
  const auto shift = static_cast<float>(config.shift);
  const double first = double{shifted(1.0F, shift)} * train;
  const double last = double{shifted(1.0F / static_cast<float>(train), shift)} * train;
  for (std::size_t i = 0; i < steps; ++i) {
    const double along = steps == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    const double level = (first + along * (last - first)) / train;
    sigmas_.push_back(static_cast<float>(shifted(level, config.shift)));
    timesteps_.push_back(sigmas_.back() * static_cast<float>(train));
  }
  sigmas_.push_back(0.0F);
}

at::Tensor flow_match_euler::step(std::size_t index, const at::Tensor& velocity,
                                  const at::Tensor& latents) const {
  const float change = sigmas_.at(index + 1) - sigmas_.at(index);
  return latents.to(at::kFloat) + velocity.to(at::kFloat) * change;
}

} // namespace ferry
