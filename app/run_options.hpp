// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config_legacy.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace ferry {

inline constexpr std::int64_t most_passes_per_fetch = 64;

/// What was typed after `ferry run`.
struct run_options {
  std::filesystem::path checkpoint;

  std::optional<std::string> config; ///< JSON, or `@` and a file.
  legacy_options legacy;

  std::string device; ///< Empty: the default of this machine.
  std::optional<std::string> device_memory;
  std::optional<std::string> sim_model;

  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> join_patience; ///< In seconds.
  std::optional<std::string> compute_dtype;  ///< See `choose_compute_dtype`.

  std::optional<std::filesystem::path> requests;
  std::optional<std::size_t> passes_per_fetch; ///< Nothing: those of one request.

  // One request. What is not given has a default, except with a reference, which has them all.
  std::optional<std::string> prompt_ids; ///< "5,17,9"
  std::optional<std::string> second_prompt_ids;
  std::optional<std::string> negative_prompt_ids;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> steps;
  std::optional<double> guidance;
  std::optional<std::string> size; ///< "832x480": width, height.
  std::optional<std::int64_t> frames;

  std::optional<std::filesystem::path> reference;
  bool compare_resident = false;
  std::optional<std::filesystem::path> output;
  std::optional<std::filesystem::path> trace;
  std::optional<std::string> report; ///< A path, or `-`.
};

/// Declares `--compute-dtype`, whose text `check_compute_dtype` and `choose_compute_dtype` read.
void add_compute_dtype_option(CLI::App& command, std::optional<std::string>& asked);

/// Declares the options of `ferry run` on `command`; parsing fills `options`, which outlives it.
void add_run_options(CLI::App& command, run_options& options);

} // namespace ferry
