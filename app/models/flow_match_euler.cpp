// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flow_match_euler.hpp"

#include <ferry/platform/error.hpp>

#include <ATen/ATen.h>

#include <cmath>

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
  if (file.boolean("use_dynamic_shifting", false)) {
    dynamic_shift dynamic;
    dynamic.base_tokens = file.positive("base_image_seq_len", dynamic.base_tokens);
    dynamic.max_tokens = file.positive("max_image_seq_len", dynamic.max_tokens);
    dynamic.base_shift = file.positive("base_shift", dynamic.base_shift);
    dynamic.max_shift = file.positive("max_shift", dynamic.max_shift);
    dynamic.form = file.one_of("time_shift_type", {"exponential", "linear"}) == 0
                       ? dynamic_shift::growth::exponential
                       : dynamic_shift::growth::linear;
    file.expect(dynamic.max_tokens > dynamic.base_tokens, "max_image_seq_len",
                "more than base_image_seq_len");
    config.dynamic = dynamic;
  }
  for (const auto* variant : {"use_karras_sigmas", "use_beta_sigmas", "use_exponential_sigmas",
                              "invert_sigmas", "shift_terminal", "stochastic_sampling"}) {
    file.expect_off(variant);
  }
  return config;
}

double dynamic_shift::at(std::int64_t tokens) const noexcept {
  const double slope = (max_shift - base_shift) / (max_tokens - base_tokens);
  const double line = base_shift + slope * (static_cast<double>(tokens) - base_tokens);
  return form == growth::exponential ? std::exp(line) : line;
}

flow_match_euler::flow_match_euler(const flow_match_config& config, std::size_t steps) {
  FERRY_ASSERT(steps >= 1 && !config.dynamic);
  add_even_levels(config, steps);
  sigmas_.push_back(0.0F);
}

flow_match_euler::flow_match_euler(const flow_match_config& config, std::size_t steps,
                                   std::int64_t tokens) {
  FERRY_ASSERT(steps >= 1);
  if (config.dynamic) {
    const auto shift = static_cast<float>(config.dynamic->at(tokens));
    for (std::size_t i = 0; i < steps; ++i) {
      const auto level = static_cast<double>(steps - i) / static_cast<double>(steps);
      add_level(shifted(static_cast<float>(level), shift), config.train_timesteps);
    }
  } else {
    add_even_levels(config, steps);
  }
  sigmas_.push_back(0.0F);
}

void flow_match_euler::add_level(float sigma, std::int64_t train_timesteps) {
  sigmas_.push_back(sigma);
  timesteps_.push_back(sigma * static_cast<float>(train_timesteps));
}

// The reference shifts twice: once for the range, in float32, and once for the levels in it.
void flow_match_euler::add_even_levels(const flow_match_config& config, std::size_t steps) {
  const auto train = static_cast<double>(config.train_timesteps);
  const auto shift = static_cast<float>(config.shift);
  const double first = double{shifted(1.0F, shift)} * train;
  const double last = double{shifted(1.0F / static_cast<float>(train), shift)} * train;
  for (std::size_t i = 0; i < steps; ++i) {
    const double along = steps == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    const double level = (first + along * (last - first)) / train;
    add_level(static_cast<float>(shifted(level, config.shift)), config.train_timesteps);
  }
}

at::Tensor flow_match_euler::step(std::size_t index, const at::Tensor& velocity,
                                  const at::Tensor& latents) const {
  const float change = sigmas_.at(index + 1) - sigmas_.at(index);
  return latents.to(at::kFloat) + velocity.to(at::kFloat) * change;
}

} // namespace ferry
