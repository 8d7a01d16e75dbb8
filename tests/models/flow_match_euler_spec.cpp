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

TEST_CASE("latents stay float32 whatever the denoiser computes in") {
  const flow_match_euler schedule{{.train_timesteps = 1000, .shift = 3.0}, 2};

  const auto latents = schedule.step(0, at::ones({2}, at::kBFloat16), at::ones({2}));

  CHECK(latents.scalar_type() == at::kFloat);
}
