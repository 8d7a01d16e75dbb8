// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/reference_run.hpp"
#include "models/request.hpp"
#include "models/request_group.hpp"
#include "models/run_callbacks.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace ferry {

/// A diffusion pipeline of one family, opened from a checkpoint.
///
/// Its weights are the pages of the mapped checkpoint, which its tensors keep mapped. Used by one
/// thread at a time.
class diffusion_model {
public:
  virtual ~diffusion_model() = default;

  /// Says where `run` computes, and where the description says that blocks do, from now on. The CPU
  /// unless told otherwise. Requests and results are in host memory all the same.
  void compute_on(at::Device where) noexcept { where_ = where; }

  /// Returns the modules by name with what there is to know for offloading them.
  [[nodiscard]] virtual torch_pipeline_description description() const = 0;

  /// Returns the request of the family that asks for nothing in particular: a fixed short prompt, a
  /// small size, the guidance it was trained for.
  [[nodiscard]] virtual request defaults() const = 0;

  /// Returns the request that a serving process runs once before the first: small, and through
  /// every component. Nothing: the family declares none.
  [[nodiscard]] virtual std::optional<request> warm_up_request() const { return std::nullopt; }

  /// Returns how often a step of `asked` runs through each denoiser, by its path; a step runs one
  /// of them. What is not named: once.
  [[nodiscard]] virtual std::map<std::string, std::size_t> passes_per_step(const request&) const {
    return {};
  }

  /// Returns the request that a reference file of the family describes.
  /// @returns `invalid_checkpoint` with what is missing or malformed
  [[nodiscard]] virtual result<request> inputs_of(const reference_run& reference) const = 0;

  /// Looks whether the model can do what is asked.
  /// @returns `invalid_argument` with the field, its value and its limits
  [[nodiscard]] virtual result<void> check(const request& asked) const = 0;

  /// Runs one request, in each step both branches of guidance side by side.
  /// @returns `invalid_argument` if `check` refuses it
  /// @throws ferry_error what a block's gate throws; c10::Error
  [[nodiscard]] result<generated> run(const request& asked, const run_callbacks& tell) const;

  /// Runs several requests step by step together: passes of the same step share what is brought to
  /// the device for them. Each ends with the bytes it would end with alone, or with what ended it:
  /// `ferry_error` `invalid_argument` if `check` refuses it, or as `run` throws. One with fewer
  /// steps than others leaves earlier.
  /// @throws what `how.step_begins` or `how.step_ended` throws, nothing else
  virtual void run_together(std::span<grouped_request> group, const group_options& how) const = 0;

protected:
  [[nodiscard]] at::Device computes_on() const noexcept { return where_; }

  diffusion_model() = default;
  diffusion_model(const diffusion_model&) = default;
  diffusion_model(diffusion_model&&) = default;
  diffusion_model& operator=(const diffusion_model&) = default;
  diffusion_model& operator=(diffusion_model&&) = default;

private:
  at::Device where_{at::kCPU};
};

} // namespace ferry
