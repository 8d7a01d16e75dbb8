// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/planner.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include "models/compute_dtype.hpp"
#include "models/diffusion_model.hpp"
#include "request_file.hpp"
#include "run_options.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What `--config` says where the planner is to choose.
inline constexpr const char* automatic_config = "auto";

/// Returns how the denoisers of a planned configuration travel: "rank-local" or "allgather", empty
/// where nothing is offloaded.
[[nodiscard]] std::string transfer_text(const planned_configuration& plan);

/// Returns the options of `ferry run` that ask for a configuration planned for so many ranks and
/// for weights of this type.
[[nodiscard]] std::string options_text(const planned_configuration& plan, std::size_t ranks,
                                       const compute_dtype& computes);

/// Says in the log which keys of a simulated device's model no plan counts.
void warn_of_unplanned(const std::optional<std::string>& model);

/// Refuses options that say themselves what the planner is to choose.
[[nodiscard]] result<void> check_beside_automatic(const legacy_options& beside);

/// Returns the best configuration for a run of `asked` on `ranks` devices like `target`: on `sim`
/// by its model, elsewhere by what a request took in `device_memory` with weights of type
/// `computes`, which `model` has been loaded for. No more passes share a fetch than all of `asked`
/// have together. Says in the log which one. @pre `asked` is not empty
/// @return as of `plan_configurations` and `measure_rates`
[[nodiscard]] result<planned_configuration>
choose_config(const run_options& options, const diffusion_model& model,
              const std::vector<asked_request>& asked, std::optional<std::uint64_t> device_memory,
              const compute_dtype& computes, device& target, std::size_t ranks);

} // namespace ferry
