// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement_plan.hpp"

#include <ferry/offload/gather_plan.hpp>
#include <ferry/offload/resolve.hpp>
#include <ferry/platform/log.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace ferry {
namespace {

std::string join(const std::vector<diagnostic>& diagnostics) {
  std::string all;
  for (const auto& each : diagnostics)
    all += (all.empty() ? "" : "; ") + each.message;
  return all;
}

/// Says what these ranks cannot do, rather than doing something else.
result<void> check_ranks(const offload_config& config, rank_place where) {
  if (!config.any_allgather() || config.strategy != offload_strategy::distributed_layer_wise)
    return {};
  if (config.group_size != 1 && static_cast<std::size_t>(config.group_size) != where.of)
    return tl::unexpected(failure{errc::invalid_config,
                                  "the configured group has " + std::to_string(config.group_size) +
                                      " ranks, and there are " + std::to_string(where.of)});
  return {};
}

void collect_on_demand(const resolved_component& component, std::set<object_id>& seen,
                       std::vector<std::shared_ptr<const module_node>>& found) {
  if (component.on_demand && seen.insert(component.node->identity()).second)
    found.push_back(component.node);
  for (const auto& child : component.children)
    collect_on_demand(child, seen, found);
}

std::vector<std::shared_ptr<const module_node>> on_demand_of(const resolved_offload_plan& plan) {
  std::set<object_id> seen;
  std::vector<std::shared_ptr<const module_node>> found;
  for (const auto* group : {&plan.encoders, &plan.vaes, &plan.residents, &plan.dits})
    for (const auto& component : *group)
      collect_on_demand(component, seen, found);
  return found;
}

/// Why enabling `plan` would change nothing (contract 5.4 and the resolver's own reasons).
std::optional<std::string> reason_to_skip(const pipeline& subject,
                                          const resolved_offload_plan& plan) {
  if (plan.skip_reason || plan.strategy != offload_strategy::model_level)
    return plan.skip_reason;
  const auto name = std::string{subject.type_name()};
  if (plan.dits.empty())
    return name + " has no DiT to take turns with its encoders";
  if (plan.encoders.empty())
    return name + " has no encoder to take turns with its DiT";
  return std::nullopt;
}

/// What is staged as a whole has to be loaded. Blocks of a ring may belong to another rank.
result<void> check_loaded(const transfer_plan& transfers) {
  for (const auto& each : transfers.groups) {
    const auto missing = each.layout.meta_tensors;
    if (missing != 0)
      return tl::unexpected(
          failure{errc::invalid_pipeline, "'" + each.path + "' has " + std::to_string(missing) +
                                              " tensors without memory; expected loaded weights"});
  }
  return {};
}

std::optional<std::uint64_t> bytes_of_gib(double limit) {
  constexpr auto gib = 1024.0 * 1024.0 * 1024.0;
  if (limit <= 0)
    return std::nullopt;
  return static_cast<std::uint64_t>(std::min(limit, 1e9) * gib);
}

std::string describe_rest(const transfer_plan& transfers, std::size_t slots) {
  std::string rest;
  if (transfers.group_bytes != 0)
    rest += " + " + std::to_string(transfers.group_bytes) + " for what comes and goes";
  if (!transfers.blocks.empty())
    rest += " + " + std::to_string(slots) + " slots of " + std::to_string(transfers.slot_bytes);
  return rest;
}

} // namespace

result<std::optional<placement_plan>>
plan_placement(const pipeline& subject, const offload_config& config, rank_place where) {
  if (config.strategy == offload_strategy::none)
    return std::nullopt;
  if (auto fitting = check_ranks(config, where); !fitting)
    return tl::unexpected(std::move(fitting.error()));
  auto resolved = resolve(subject, config);
  if (!resolved)
    return tl::unexpected(
        failure{resolved.error().empty() ? errc::invalid_pipeline : resolved.error().front().code,
                join(resolved.error())});
  for (const auto& each : resolved->warnings)
    log(log_level::warn, "ferry.actors", each);
  if (const auto reason = reason_to_skip(subject, *resolved)) {
    log(log_level::warn, "ferry.actors", "skip enable reason=" + *reason);
    return std::nullopt;
  }
  placement_plan plan{.pipeline = std::string{subject.type_name()},
                      .strategy = config.strategy,
                      .pinning = {.wanted = config.pin_memory,
                                  .budget = config.pin_budget_bytes,
                                  .on_failure = config.on_pin_failure,
                                  .keep_mapped = config.keep_mapped},
                      .most_registered = bytes_of_gib(config.registration_limit_gib),
                      .piece_bytes = config.chunk_bytes,
                      .transfers = plan_transfers(*resolved),
                      .components = {},
                      .units = {},
                      .on_demand = on_demand_of(*resolved),
                      .rank = where.rank};
  if (config.strategy == offload_strategy::distributed_layer_wise)
    if (auto gathers = plan_gathers(plan.transfers, config, where.of); !gathers)
      return tl::unexpected(std::move(gathers.error()));
  if (auto loaded = check_loaded(plan.transfers); !loaded)
    return tl::unexpected(std::move(loaded.error()));
  plan.components = component_states(*resolved, plan.transfers);
  plan.units = units_of_components(*resolved, plan.transfers);
  return plan;
}

result<void> check_memory(const transfer_plan& transfers, std::size_t slots,
                          std::optional<std::uint64_t> ceiling, const device_memory& memory) {
  const auto needed = transfers.device_bytes(slots);
  const auto limit = std::min(ceiling.value_or(memory.free), memory.free);
  if (needed <= limit)
    return {};
  const auto least = transfers.device_bytes(1);
  return tl::unexpected(
      failure{errc::out_of_device_memory,
              "device memory of " + std::to_string(limit) + " bytes is too small: needs at least " +
                  std::to_string(needed) + " (" + std::to_string(transfers.resident_bytes) +
                  " for what stays" + describe_rest(transfers, slots) + ")" +
                  (least < needed ? ", or " + std::to_string(least) + " with 1 slot" : "")});
}

} // namespace ferry
