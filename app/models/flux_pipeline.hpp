// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"
#include "models/flow_match_euler.hpp"
#include "models/flux_request.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace ferry {

class clip_encoder;
class flux_transformer;
class image_decoder;
class t5_encoder;

/// A text-to-image pipeline of the FLUX family: CLIP for the pooled prompt, T5 for its tokens, one
/// denoiser that is told the guidance, flow-matching Euler, a decoder where the checkpoint has one.
///
/// Each encoder has its own tokeniser: `request::positive` is CLIP's ids, `request::second`
/// T5's. `generated::latents` are packed, `[1, tokens, 4 * channels]`.
class flux_pipeline final : public diffusion_model {
public:
  /// Opens a pipeline directory as diffusers saves it. Copies no weights.
  /// @returns `invalid_checkpoint` or `unsupported`; where several things are wrong, the first and
  /// their number
  /// @param computes as of `load_model`
  [[nodiscard]] static result<flux_pipeline> load(const std::filesystem::path& directory,
                                                  std::optional<dtype> computes = std::nullopt);

  [[nodiscard]] const flux_limits& limits() const noexcept { return limits_; }

  [[nodiscard]] torch_pipeline_description description() const override;
  [[nodiscard]] request defaults() const override;
  [[nodiscard]] std::optional<request> warm_up_request() const override;
  [[nodiscard]] result<request> inputs_of(const reference_run& reference) const override;
  [[nodiscard]] result<void> check(const request& asked) const override;
  void run_together(std::span<grouped_request> group, const group_options& how) const override;

private:
  struct member;
  struct encoded {
    at::Tensor text;   ///< `[1, tokens, text width]`
    at::Tensor pooled; ///< `[1, pooled width]`
  };

  flux_pipeline() = default;

  [[nodiscard]] encoded encode(const request& asked, const run_callbacks& tell) const;
  [[nodiscard]] member begin(grouped_request& of) const;
  void step(std::size_t index, std::span<member* const> members, std::size_t most_passes) const;
  [[nodiscard]] at::Tensor decode(const at::Tensor& latents, const request& asked,
                                  const run_callbacks& tell) const;

  flow_match_config schedule_;
  flux_limits limits_;
  double scaling_factor_ = 1;
  double shift_factor_ = 0;
  std::shared_ptr<clip_encoder> clip_;
  std::shared_ptr<t5_encoder> t5_;
  std::shared_ptr<flux_transformer> transformer_;
  std::shared_ptr<image_decoder> decoder_; ///< Null where the checkpoint has none.
};

} // namespace ferry
