// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <string_view>

namespace ferry {

/// What a run tells while it goes on, on its own thread. Each may be empty. An exception ends the
/// run.
struct run_callbacks {
  /// `index` of `steps` begins, and has ended. All encoder passes come before the first.
  std::function<void(std::size_t index, std::size_t steps)> step_begins;
  std::function<void(std::size_t index, std::size_t steps)> step_ended;

  /// A stage has its result. Stages are named as in reference files: `encoder_block.N.0`,
  /// `prompt_embeds`, `negative_prompt_embeds`, `timesteps`, `sigmas`, `noise.N`, `noise_uncond.N`,
  /// `latents.N`, `vae_input`, `frames`, and `transformer_block.N.0` and `transformer_2_block.N.0`
  /// the first time that denoiser runs. The value is good during the call only.
  std::function<void(std::string_view stage, const at::Tensor& value)> stage;
};

} // namespace ferry
