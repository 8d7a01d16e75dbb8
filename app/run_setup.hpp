// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/planner.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include "models/compute_dtype.hpp"
#include "models/diffusion_model.hpp"
#include "models/reference_run.hpp"
#include "request_file.hpp"
#include "run_options.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

class launched_ranks;

/// What one rank runs, and on what.
struct rank_setup {
  int number = 0;
  std::shared_ptr<device> target;
  std::optional<rank_group> group; ///< Nothing: it is alone.
  std::unique_ptr<diffusion_model> model;
  std::optional<reference_run> reference;
  std::shared_ptr<caller_streams> callers; ///< Null: blocks compute on a stream of the runtime's.
};

/// Everything a run needs, checked, before anything moves.
struct run_setup {
  offload_config config;
  std::optional<planned_configuration> chosen; ///< Where `--config` is `auto`.
  std::vector<asked_request> asked;            ///< At least one.
  std::optional<std::uint64_t> device_memory;
  std::optional<std::size_t> passes_per_fetch; ///< Nothing: those of one request.
  compute_dtype computes;
  int ranks = 1;                ///< In all processes.
  std::vector<rank_setup> here; ///< Those that this process plays. At least one.

  /// Returns the name of a result of this process: `.rankN` comes before the ending where several
  /// processes would write the same file.
  [[nodiscard]] std::string own_file(const std::string& name) const;
};

/// Reads the configuration, opens checkpoint, reference and device, and checks every request. Joins
/// `others` then, which waits for them, or tells them why not.
/// @return the first thing that has to be refused, by this rank or by any
[[nodiscard]] result<run_setup> set_up(const run_options& options, launched_ranks& others);

} // namespace ferry
