// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"
#include "models/flow_match_euler.hpp"
#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace ferry {

class t5_encoder;
class wan_decoder;
class wan_transformer;

/// A text-to-video pipeline of the Wan family: UMT5 encoder, one or two denoisers, flow-matching
/// Euler, causal decoder. A checkpoint may leave the decoder out: then a run ends with latents.
class wan_pipeline final : public diffusion_model {
public:
  /// Opens a pipeline directory as diffusers saves it. Copies no weights.
  /// @returns `invalid_checkpoint` or `unsupported`; where several things are wrong, the first and
  /// their number
  /// @param computes as of `load_model`
  [[nodiscard]] static result<wan_pipeline> load(const std::filesystem::path& directory,
                                                 std::optional<dtype> computes = std::nullopt);

  [[nodiscard]] const request_limits& limits() const noexcept { return limits_; }

  [[nodiscard]] torch_pipeline_description description() const override;
  [[nodiscard]] request defaults() const override;
  [[nodiscard]] std::optional<request> warm_up_request() const override;
  [[nodiscard]] std::map<std::string, std::size_t>
  passes_per_step(const request& asked) const override;
  [[nodiscard]] result<request> inputs_of(const reference_run& reference) const override;
  [[nodiscard]] result<void> check(const request& asked) const override;
  void run_together(std::span<grouped_request> group, const group_options& how) const override;

private:
  struct member;

  wan_pipeline() = default;

  [[nodiscard]] at::Tensor encode(const prompt& text, const block_observer& observe) const;
  [[nodiscard]] member begin(grouped_request& of) const;
  [[nodiscard]] const wan_transformer& denoiser_of(const member& each, std::size_t step) const;
  void step(std::size_t index, std::span<member* const> members, std::size_t most_passes) const;
  void run_passes_of(const wan_transformer& denoiser, std::size_t index,
                     std::span<member* const> members, std::size_t most) const;
  [[nodiscard]] at::Tensor draw(const at::Tensor& latents, const run_callbacks& tell) const;

  flow_match_config schedule_;
  request_limits limits_;
  std::optional<double> boundary_; ///< Timestep below which the second denoiser takes over.
  std::shared_ptr<t5_encoder> encoder_;
  std::shared_ptr<wan_transformer> transformer_;
  std::shared_ptr<wan_transformer> transformer_2_; ///< Null where there is one denoiser.
  std::shared_ptr<wan_decoder> decoder_;           ///< Null where the checkpoint has none.
};

} // namespace ferry
