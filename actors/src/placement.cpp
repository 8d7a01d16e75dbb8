// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement.hpp"

#include <ferry/offload/component_states.hpp>
#include <ferry/offload/resolve.hpp>
#include <ferry/platform/log.hpp>

#include <algorithm>
#include <set>

namespace ferry {
namespace {

std::string join(const std::vector<diagnostic>& diagnostics) {
  std::string all;
  for (const auto& each : diagnostics)
    all += (all.empty() ? "" : "; ") + each.message;
  return all;
}

/// Says what this build cannot do, rather than doing something else.
result<void> check_supported(const offload_config& config) {
  const auto name = std::string{to_string(config.strategy)};
  if (config.strategy == offload_strategy::model_level)
    return tl::unexpected(
        failure{errc::unsupported,
                "strategy is " + name + "; this build streams blocks only, use layer_wise"});
  if (config.strategy == offload_strategy::distributed_layer_wise) {
    if (config.any_allgather())
      return tl::unexpected(failure{
          errc::unsupported, "strategy is " + name +
                                 " with an allgather transfer; this build has no collectives, "
                                 "use rank-local transfers or layer_wise"});
    if (config.resident_layers != 0)
      return tl::unexpected(failure{
          errc::unsupported, "dit.resident_layers is " + std::to_string(config.resident_layers) +
                                 "; this build keeps no resident layers, use 0"});
  }
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

} // namespace

result<std::optional<placement_plan>> plan_placement(const pipeline& subject,
                                                     const offload_config& config) {
  if (config.strategy == offload_strategy::none)
    return std::nullopt;
  if (auto supported = check_supported(config); !supported)
    return tl::unexpected(std::move(supported.error()));
  auto resolved = resolve(subject, config);
  if (!resolved)
    return tl::unexpected(
        failure{resolved.error().empty() ? errc::invalid_pipeline : resolved.error().front().code,
                join(resolved.error())});
  for (const auto& each : resolved->warnings)
    log(log_level::warn, "ferry.actors", each);
  if (resolved->skip_reason) {
    log(log_level::warn, "ferry.actors", "skip enable reason=" + *resolved->skip_reason);
    return std::nullopt;
  }
  placement_plan plan{.strategy = config.strategy,
                      .pin_memory = config.pin_memory,
                      .transfers = plan_transfers(*resolved),
                      .components = {},
                      .on_demand = on_demand_of(*resolved)};
  plan.components = component_states(*resolved, plan.transfers);
  return plan;
}

result<void> check_memory(const transfer_plan& transfers, std::size_t slots,
                          std::optional<std::uint64_t> ceiling, const device_memory& memory) {
  const auto needed = transfers.device_bytes(slots);
  const auto limit = std::min(ceiling.value_or(memory.free), memory.free);
  if (needed <= limit)
    return {};
  return tl::unexpected(
      failure{errc::out_of_device_memory,
              "device memory of " + std::to_string(limit) + " bytes is too small: needs at least " +
                  std::to_string(needed) + " (residents " +
                  std::to_string(transfers.resident_bytes) + " + " + std::to_string(slots) +
                  " slots of " + std::to_string(transfers.slot_bytes) + ")"});
}

placement::placement(device& owner, std::shared_ptr<pipeline> subject, placement_plan plan,
                     std::size_t slots)
    : owner_(&owner), subject_(std::move(subject)), plan_(std::move(plan)), slots_(slots),
      through_(std::make_shared<streaming>(owner, plan_.transfers, slots)) {}

placement::placement(device& owner, std::shared_ptr<const bare_weights> weights, std::size_t slots)
    : owner_(&owner), bare_(std::move(weights)), slots_(slots) {
  plan_.transfers = bare_->plan;
  through_ = std::make_shared<streaming>(owner, plan_.transfers, slots);
}

std::uint64_t placement::pinned_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& each : blocks_)
    bytes += each.master ? each.master->whole().size() : 0;
  return bytes;
}

void placement::prepare(const std::shared_ptr<block_gate>& gate) {
  carve_memory();
  if (bare_) {
    for (std::size_t i = 0; i != bare_->blocks.size(); ++i)
      through_->add_sources(plan_.transfers.blocks[i].id, bare_->blocks[i]->segments());
    for (std::size_t i = 0; i != bare_->residents.size(); ++i)
      through_->add_resident(resident_regions_[i], bare_->residents[i]->segments());
    return;
  }
  make_units();
  hook_blocks(gate);
  place_blocks();
  place_residents();
}

void placement::carve_memory() {
  const auto& transfers = plan_.transfers;
  std::vector<mutable_bytes> slot_regions(slots_);
  resident_regions_.resize(transfers.residents.size());
  if (const auto bytes = transfers.device_bytes(slots_); bytes != 0) {
    arena_.emplace(*owner_, bytes);
    for (std::size_t i = 0; i != resident_regions_.size(); ++i)
      resident_regions_[i] = arena_->carve(transfers.residents[i].layout.bytes);
    for (auto& each : slot_regions)
      each = arena_->carve(transfers.slot_bytes);
  }
  through_->open(slot_regions);
}

void placement::master_of(placed_unit& placed, bool pin) {
  auto& unit = *placed.unit;
  const auto originals = unit.originals();
  if (pin) {
    placed.master = host_master::pinned(*owner_, unit.layout(), originals);
    return;
  }
  std::vector<memory_kind> kinds;
  for (std::size_t i = 0; i != originals.size(); ++i)
    kinds.push_back(unit.originals_kind(i));
  placed.master = host_master::kept(unit.layout(), originals, kinds);
}

void placement::make_units() {
  blocks_.reserve(plan_.transfers.blocks.size());
  for (const auto& each : plan_.transfers.blocks) {
    auto& placed = blocks_.emplace_back();
    placed.path = each.path;
    placed.unit = subject_->make_unit(each.path, each.layout);
  }
  residents_.reserve(plan_.transfers.residents.size());
  for (const auto& each : plan_.transfers.residents) {
    auto& placed = residents_.emplace_back();
    placed.path = each.path;
    placed.unit = subject_->make_unit(each.path, each.layout);
  }
}

void placement::hook_blocks(const std::shared_ptr<block_gate>& gate) {
  for (std::size_t i = 0; i != blocks_.size(); ++i) {
    const auto& block = plan_.transfers.blocks[i];
    subject_->install_block_hook(block.node, block.id, *blocks_[i].unit, gate);
    // A hook that could not be installed may be somebody else's: only ours is remembered.
    blocks_[i].hooked = block.node;
  }
}

// Unit by unit, so that the host never holds more than one block twice.
void placement::place_blocks() {
  const auto pin = plan_.pin_memory && owner_->traits().wants_pinned_sources;
  for (std::size_t i = 0; i != blocks_.size(); ++i) {
    auto& placed = blocks_[i];
    master_of(placed, pin);
    placed.displaced = true;
    placed.unit->park();
    if (pin)
      placed.unit->drop_originals();
    through_->add_sources(plan_.transfers.blocks[i].id, placed.master->segments());
  }
}

// Residents are loaded once: their originals are good enough as sources.
void placement::place_residents() {
  for (std::size_t i = 0; i != residents_.size(); ++i) {
    master_of(residents_[i], false);
    through_->add_resident(resident_regions_[i], residents_[i].master->segments());
  }
}

void placement::bind() {
  for (std::size_t i = 0; i != residents_.size(); ++i) {
    auto& placed = residents_[i];
    placed.displaced = true;
    placed.unit->park();
    placed.unit->bind(resident_regions_[i].data());
  }
  for (const auto& each : plan_.on_demand)
    each->offload_to_cpu();
}

} // namespace ferry
