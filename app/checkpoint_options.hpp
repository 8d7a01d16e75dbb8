// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "checkpoint_plan.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace ferry {

/// What was typed after `ferry checkpoint`. What is not given comes from the preset.
struct checkpoint_options {
  std::string family;
  std::filesystem::path directory;
  std::string preset = "small";
  bool full_encoder = false;
  bool no_vae = false;

  std::optional<std::int64_t> blocks;
  std::optional<std::int64_t> single_blocks;
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> head_dim;
  std::optional<std::int64_t> ffn;
  std::optional<std::int64_t> denoisers;
  std::optional<std::int64_t> text_blocks;
  std::optional<std::int64_t> text_hidden;
  std::optional<std::int64_t> vocabulary;
  std::optional<std::int64_t> vae_width;

  std::string dtype = "bf16";
  std::uint64_t seed = 0;
  std::string shard_size = "10GB";
};

/// Declares the options on `command`; parsing fills `options`, which outlives it.
void add_checkpoint_options(CLI::App& command, checkpoint_options& options);

/// Returns the pipeline asked for.
/// @return `invalid_argument` with the option, its value and what was expected
[[nodiscard]] result<checkpoint_plan> plan_of(const checkpoint_options& options);

} // namespace ferry
