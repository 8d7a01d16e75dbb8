// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ferry {

/// What a run tells while it goes on, on its own thread. Each may be empty. An exception ends the
/// run.
struct run_callbacks {
  /// `index` of `steps` begins, and has ended. All encoder passes come before the first.
  std::function<void(std::size_t index, std::size_t steps)> step_begins;
  std::function<void(std::size_t index, std::size_t steps)> step_ended;

  /// Asked before each block of a denoiser, numbered over all its lists, in each pass of a step:
  /// whether this request leaves it out, as a cache of blocks does. What would go in is then what
  /// comes out.
  std::function<bool(std::size_t step, std::size_t block)> skips_block;

  /// A stage has its result. Stages are named as in reference files: `encoder_block.N.0`,
  /// `prompt_embeds`, `timesteps`, `sigmas`, `noise.N`, `latents.N`, `vae_input`.
  ///
  /// Of Wan also `negative_prompt_embeds`, `noise_uncond.N`, `frames`, and `transformer_block.N.0`
  /// and `transformer_2_block.N.0` the first time that denoiser runs. Of FLUX also `clip_hidden`,
  /// `pooled_prompt_embeds`, `image`, and in the first step `double_block.N.P` and
  /// `single_block.N.P`, where P is 0 for the text and 1 for the image.
  ///
  /// The value is good during the call only.
  std::function<void(std::string_view stage, const at::Tensor& value)> stage;
};

/// Tells a stage, if somebody listens.
void tell_stage(const run_callbacks& tell, std::string_view name, const at::Tensor& value);

/// Returns the name of one stage of several: `noise.3`.
[[nodiscard]] std::string numbered(std::string_view stage, std::size_t index);

/// Returns what asks which blocks of a step are left out; empty if nobody is to be asked. `tell`
/// outlives it.
[[nodiscard]] block_skip skipped_blocks(const run_callbacks& tell, std::size_t step);

/// Returns an observer that tells what each block of a list returns as `LIST.N.0`; an empty one if
/// nobody listens. `tell` outlives it.
[[nodiscard]] block_observer block_stages(const run_callbacks& tell, std::string list);

} // namespace ferry
