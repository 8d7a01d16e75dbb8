// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors.hpp>
#include <ferry/platform/error.hpp>

#include "models/request.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// How far a stage is from the reference. Infinite where a shape differs or a value is not finite.
struct stage_error {
  std::string stage;
  double max_abs = 0;
};

/// A reference file: what went into a run, and what each stage of it returned. See
/// `run_callbacks::stage` for the names of stages.
class reference_run {
public:
  /// Opens a safetensors file.
  [[nodiscard]] static result<reference_run> open(const std::filesystem::path& path);

  /// Returns the request that the file describes: `input_ids`, `negative_input_ids`,
  /// `attention_mask`, `initial_latents`, and `steps` and `guidance_scale` in its metadata.
  /// @returns `invalid_checkpoint` with what is missing or malformed
  [[nodiscard]] result<request> inputs() const;

  /// Returns whether the file has a value for the stage.
  [[nodiscard]] bool knows(std::string_view stage) const;

  /// Compares one stage with its reference and notes the result. Stages that the file does not know
  /// are passed over.
  void compare(std::string_view stage, const at::Tensor& value);

  /// Returns what has been compared so far, in order.
  [[nodiscard]] const std::vector<stage_error>& errors() const noexcept { return errors_; }

  /// Returns the largest error so far; nothing if nothing was compared.
  [[nodiscard]] std::optional<stage_error> worst() const;

private:
  explicit reference_run(std::shared_ptr<const safetensors_file> file);

  [[nodiscard]] at::Tensor tensor(std::string_view name) const;

  std::shared_ptr<const safetensors_file> file_;
  std::vector<stage_error> errors_;
};

} // namespace ferry
