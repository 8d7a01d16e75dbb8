// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/planner.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_options.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

/// Puts the rates that were typed by options of their own in the place of others.
/// @return as `read_rates`
[[nodiscard]] result<void> refine_rates(const rate_options& typed, machine_rates& rates);

/// Returns the keys of a simulated device's model that say something of its speed and that no plan
/// counts, as they were typed.
[[nodiscard]] std::vector<std::string> keys_without_effect(const std::optional<std::string>& model);

/// Where rates are measured.
struct measured_machine {
  std::filesystem::path checkpoint;
  std::string device; ///< Empty: the default of this machine.
  std::optional<std::uint64_t> device_memory = std::nullopt; ///< Most of it, for weights.
  std::optional<std::string> sim_model = std::nullopt;
  std::optional<dtype> computes = std::nullopt; ///< What weights are there; nothing: as stored.
};

/// Replaces the link, its jitter and the compute times by those that a request of the family's
/// defaults takes, with every denoiser streamed: medians. Opens the checkpoint and the device
/// itself, and streams as much as fits the memory. Says in the log what it leaves as it was: what
/// the request did not show, and the rates of gathers.
/// @return also `out_of_device_memory` if nothing does
[[nodiscard]] result<void> measure_rates(const measured_machine& where, std::size_t ranks,
                                         machine_rates& rates);

} // namespace ferry
