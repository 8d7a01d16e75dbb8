// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/planner.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"
#include "run_options.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace ferry {

/// What `--config` says where the planner is to choose.
inline constexpr const char* automatic_config = "auto";

/// Returns how the denoisers of a planned configuration travel: "rank-local", "allgather", or "-"
/// where nothing is offloaded.
[[nodiscard]] std::string transfer_text(const planned_configuration& plan);

/// Returns the options of `ferry run` that ask for a planned configuration.
[[nodiscard]] std::string options_text(const planned_configuration& plan);

/// Returns the best configuration for a run of `asked` on `ranks` devices like `target`: on `sim`
/// by its model, elsewhere by what a request took. Says in the log which one.
/// @return as of `plan_configurations` and `measure_rates`
[[nodiscard]] result<offload_config> choose_config(const run_options& options,
                                                   const diffusion_model& model,
                                                   const request& asked, device& target,
                                                   std::size_t ranks);

} // namespace ferry
