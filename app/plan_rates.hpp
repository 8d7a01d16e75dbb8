// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/planner.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_options.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace ferry {

/// What was typed to say how fast a machine is.
struct rate_options {
  std::optional<std::string> model = std::nullopt; ///< Text of `--sim`, which the others refine.
  std::optional<std::string> link = std::nullopt;
  std::optional<std::string> host_link = std::nullopt;
  std::optional<std::string> compute = std::nullopt; ///< A time, or PATH=TIME,...
  std::optional<std::string> gather = std::nullopt;
  std::optional<std::string> gather_latency = std::nullopt;
  std::optional<std::string> jitter = std::nullopt;
};

/// Returns the rates that a simulated device has.
[[nodiscard]] machine_rates rates_of(const sim_options& model);

/// Reads rates; what is not mentioned is that of a simulated device.
/// @return `invalid_argument`, naming the option, the value and what was expected
[[nodiscard]] result<machine_rates> read_rates(const rate_options& typed);

/// Replaces the link, its jitter and the compute times by those that a request of the family's
/// defaults takes, with every denoiser streamed: medians. Opens the checkpoint and the device
/// itself.
[[nodiscard]] result<void> measure_rates(const std::filesystem::path& checkpoint,
                                         const std::string& device_name,
                                         const std::optional<std::string>& sim_model,
                                         machine_rates& rates);

} // namespace ferry
