// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flow_match_euler.hpp"

#include "torch/catch.hpp"

#include <ATen/ATen.h>

using ferry::flow_match_euler;

TEST_CASE("noise levels fall from one to zero") {
  const flow_match_euler schedule{{.train_timesteps = 1000, .shift = 1.0}, 4};

  CHECK(schedule.sigmas().front() == 1.0F);
  CHECK(schedule.sigmas()[1] == Approx(0.667).margin(1e-6));
  CHECK(schedule.sigmas()[3] == Approx(0.001).margin(1e-6));
  CHECK(schedule.sigmas().back() == 0.0F);
}

TEST_CASE("a shift above one spends more steps at high noise") {
  const flow_match_euler schedule{{.train_timesteps = 1000, .shift = 3.0}, 4};

  CHECK(schedule.sigmas()[1] == Approx(0.857692).margin(1e-6));
}

TEST_CASE("the denoiser is told the noise level times the number of training steps") {
  const flow_match_euler schedule{{.train_timesteps = 500, .shift = 1.0}, 3};

  CHECK(schedule.timesteps().size() == 3);
  CHECK(schedule.timesteps()[0] == 500.0F);
  CHECK(schedule.timesteps()[2] == Approx(1.0));
}

TEST_CASE("one step goes from full noise to none") {
  const flow_match_euler schedule{{.train_timesteps = 1000, .shift = 3.0}, 1};

  const auto latents = schedule.step(0, at::full({2}, 0.25F), at::ones({2}));

  CHECK(at::equal(latents, at::full({2}, 0.75F)));
}

TEST_CASE("a dynamic shift grows with the number of tokens in the image") {
  const auto [form, tokens, second, last] =
      GENERATE(table<ferry::dynamic_shift::growth, std::int64_t, double, double>({
          {ferry::dynamic_shift::growth::exponential, 256, 0.831824, 0.354661},
          {ferry::dynamic_shift::growth::exponential, 4096, 0.904531, 0.512844},
          {ferry::dynamic_shift::growth::linear, 256, 0.6, 0.142857},
      }));

  const flow_match_euler schedule{{.dynamic = ferry::dynamic_shift{.form = form}}, 4, tokens};

  CHECK(schedule.sigmas()[0] == 1.0F);
  CHECK(schedule.sigmas()[1] == Approx(second).margin(1e-6));
  CHECK(schedule.sigmas()[3] == Approx(last).margin(1e-6));
  CHECK(schedule.sigmas()[4] == 0.0F);
  CHECK(schedule.timesteps()[1] == Approx(1000 * second).margin(1e-3));
}

TEST_CASE("without a dynamic shift the number of tokens does not matter") {
  const ferry::flow_match_config config{.train_timesteps = 1000, .shift = 3.0};

  CHECK(flow_match_euler{config, 4, 4096}.sigmas() == flow_match_euler{config, 4}.sigmas());
}

TEST_CASE("latents stay float32 whatever the denoiser computes in") {
  const flow_match_euler schedule{{.train_timesteps = 1000, .shift = 3.0}, 2};

  const auto latents = schedule.step(0, at::ones({2}, at::kBFloat16), at::ones({2}));

  CHECK(latents.scalar_type() == at::kFloat);
}
