// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/flow_match_euler.hpp"
#include "models/request.hpp"
#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace ferry {

class umt5_encoder;
class wan_transformer;

/// What a run tells while it goes on, on its own thread. Each may be empty. An exception ends the
/// run.
struct run_callbacks {
  /// `index` of `steps` begins, and has ended. Both encoder passes come before the first.
  std::function<void(std::size_t index, std::size_t steps)> step_begins;
  std::function<void(std::size_t index, std::size_t steps)> step_ended;

  /// A stage has its result. Stages are named as in reference files: `encoder_block.N.0`,
  /// `prompt_embeds`, `negative_prompt_embeds`, `timesteps`, `sigmas`, `noise.N`, `noise_uncond.N`,
  /// `latents.N`, and `transformer_block.N.0` and `transformer_2_block.N.0` the first time that
  /// denoiser runs. The value is good during the call only.
  std::function<void(std::string_view stage, const at::Tensor& value)> stage;
};

/// A text-to-video pipeline of the Wan family: UMT5 encoder, one or two denoisers, flow-matching
/// Euler. Without its decoder: it ends with latents.
///
/// Its weights are the pages of the mapped checkpoint, which its tensors keep mapped. Used by one
/// thread at a time.
class wan_pipeline {
public:
  /// Opens a pipeline directory as diffusers saves it. Copies no weights.
  /// @returns `invalid_checkpoint` or `unsupported`; where several things are wrong, the first and
  /// their number
  [[nodiscard]] static result<wan_pipeline> load(const std::filesystem::path& directory);

  /// Returns the modules by name with what there is to know for offloading them.
  [[nodiscard]] torch_pipeline_description description() const;
  [[nodiscard]] const request_limits& limits() const noexcept { return limits_; }

  /// Runs one request and returns its latents, float32.
  /// @returns `invalid_argument` if `validate` refuses it
  /// @throws ferry_error what a block's gate throws; c10::Error
  [[nodiscard]] result<at::Tensor> run(const request& asked, const run_callbacks& tell) const;

private:
  wan_pipeline() = default;

  [[nodiscard]] at::Tensor encode(const prompt& text, const block_observer& observe) const;
  [[nodiscard]] at::Tensor denoise(const request& asked, const at::Tensor& text,
                                   const at::Tensor& negative_text,
                                   const run_callbacks& tell) const;

  flow_match_config schedule_;
  request_limits limits_;
  std::optional<double> boundary_; ///< Timestep below which the second denoiser takes over.
  std::shared_ptr<umt5_encoder> encoder_;
  std::shared_ptr<wan_transformer> transformer_;
  std::shared_ptr<wan_transformer> transformer_2_; ///< Null where there is one denoiser.
};

} // namespace ferry
