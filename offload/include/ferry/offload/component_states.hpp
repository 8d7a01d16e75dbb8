// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/plan.hpp>
#include <ferry/offload/transfer_plan.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ferry {

/// Sums up what `transfers` makes of each component of `resolved`, by path. Selected children count
/// in their parent, and storage that two components share in the one that it was given to.
[[nodiscard]] std::map<std::string, component_state>
component_states(const resolved_offload_plan& resolved, const transfer_plan& transfers);

/// What of a transfer plan belongs to one component, by index.
struct component_units {
  std::vector<std::size_t> blocks;
  std::vector<std::size_t> residents;
  std::vector<std::size_t> groups; ///< Those with bytes.
};

/// Returns the units of each component of `resolved`, by path. They count as the bytes do.
[[nodiscard]] std::map<std::string, component_units>
units_of_components(const resolved_offload_plan& resolved, const transfer_plan& transfers);

} // namespace ferry
