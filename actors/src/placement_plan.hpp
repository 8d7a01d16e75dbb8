// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/component_states.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/module_tree.hpp>
#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/pin_plan.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What enabling a pipeline is going to do. Made without touching anything.
struct placement_plan {
  std::string pipeline; ///< Its class, as reports name it.
  offload_strategy strategy = offload_strategy::layer_wise;
  pin_wish pinning;                             ///< `useful` is decided by the device.
  std::optional<std::uint64_t> most_registered; ///< Bytes of pages. Nothing: no ceiling.
  std::size_t piece_bytes = 0;                  ///< Most of a staged unit at a time.
  transfer_plan transfers;
  std::map<std::string, component_state> components;
  std::map<std::string, component_units> units; ///< By component, as `components`.
  std::vector<std::shared_ptr<const module_node>> on_demand;
  std::size_t rank = 0; ///< Of those that gather blocks.
};

/// Which rank of how many this is.
struct rank_place {
  std::size_t rank = 0;
  std::size_t of = 1;
};

/// Resolves `config` for `subject`. Nothing: enabling is a no-op, and the log says why. Fails with
/// every diagnostic of the resolver, or with `unsupported`.
[[nodiscard]] result<std::optional<placement_plan>>
plan_placement(const pipeline& subject, const offload_config& config, rank_place where);

/// Checks that the weights fit. `ceiling` of the options limits what the device has.
[[nodiscard]] result<void> check_memory(const transfer_plan& transfers, std::size_t slots,
                                        std::optional<std::uint64_t> ceiling,
                                        const device_memory& memory);

} // namespace ferry
