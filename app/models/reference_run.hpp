// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors.hpp>
#include <ferry/platform/error.hpp>

#include "models/request.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
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

  /// Returns the request to a Wan pipeline that the file describes: `input_ids`,
  /// `negative_input_ids`, `attention_mask`, `initial_latents`, and `steps` and `guidance_scale` in
  /// its metadata.
  /// @returns `invalid_checkpoint` with what is missing or malformed
  [[nodiscard]] result<request> inputs() const;

  // What an input is made of. All but `tensor` return `invalid_checkpoint` with what is missing or
  // malformed.
  [[nodiscard]] result<std::vector<std::int64_t>> ids(std::string_view name) const;
  [[nodiscard]] result<std::int64_t> steps() const;
  [[nodiscard]] result<double> guidance() const;

  /// Returns the tensor called `name`, a view of the mapped file; undefined if there is none.
  [[nodiscard]] at::Tensor tensor(std::string_view name) const;
  /// Returns the same, or that it is missing and what was expected.
  [[nodiscard]] result<at::Tensor> tensor(std::string_view name, std::string_view expected) const;

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

  std::shared_ptr<const safetensors_file> file_;
  std::vector<stage_error> errors_;
};

} // namespace ferry
