// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement.hpp"

#include <ferry/offload/unit_master.hpp>
#include <ferry/platform/log.hpp>

#include <algorithm>

namespace ferry {
namespace {

pin_candidate candidate(const std::string& path, const weight_unit& unit) {
  pin_candidate made{.path = path,
                     .bytes = host_master::pinned_size(unit.layout(), conversions_of(unit))};
  const auto& storages = unit.layout().storages;
  for (std::size_t i = 0; i != storages.size(); ++i)
    if (unit.originals_kind(i) == memory_kind::pageable)
      made.replaces += storages[i].bytes;
    else
      made.mapped = true;
  return made;
}

} // namespace

placement::placement(device& owner, std::shared_ptr<pipeline> subject, left_weights left,
                     placement_plan plan, slot_numbers slots,
                     std::shared_ptr<const numa_nodes> memory_nodes)
    : owner_(&owner), subject_(std::move(subject)), lease_(std::move(left.lease)),
      left_transforms_(std::move(left.transforms)), plan_(std::move(plan)),
      slots_(plan_.transfers.blocks.empty() ? slot_numbers{0, 0} : slots),
      memory_nodes_(std::move(memory_nodes)),
      through_(std::make_shared<streaming>(owner, plan_.transfers, slots_.first, slots_.most)),
      groups_(std::make_shared<staging>(owner, plan_.transfers)) {}

placement::placement(device& owner, std::shared_ptr<const bare_weights> weights, slot_numbers slots)
    : owner_(&owner), bare_(std::move(weights)), slots_(slots) {
  plan_.transfers = bare_->plan;
  through_ = std::make_shared<streaming>(owner, plan_.transfers, slots.first, slots.most);
  groups_ = std::make_shared<staging>(owner, plan_.transfers);
}

void placement::stage_on_demand(const std::string& path, bool in) {
  const auto component = plan_.components.find(path);
  if (component == plan_.components.end())
    throw ferry_error{{errc::not_found, "'" + path + "' is no component of the pipeline"}};
  const auto node = subject_ == nullptr ? nullptr : find_node(subject_->root(), path);
  const auto own = node == nullptr ? plan_.on_demand.end()
                                   : std::ranges::find(plan_.on_demand, node->identity(),
                                                       [](const auto& n) { return n->identity(); });
  if (own == plan_.on_demand.end())
    throw ferry_error{{errc::unsupported,
                       "component '" + path +
                           "' is streamed or stays on the device; it is not staged as a whole"}};
  in ? (*own)->load_to_device() : (*own)->offload_to_cpu();
}

void placement::prepare(const std::shared_ptr<block_gate>& blocks,
                        const std::shared_ptr<group_gate>& groups, const pin_plan& pins) {
  if (bare_) {
    for (std::size_t i = 0; i != bare_->blocks.size(); ++i)
      through_->add_sources(plan_.transfers.blocks[i].id, bare_->blocks[i]->segments());
    for (std::size_t i = 0; i != bare_->residents.size(); ++i)
      through_->add_resident(resident_regions_[i], bare_->residents[i]->segments());
    return;
  }
  hook_blocks(blocks);
  hook_groups(groups);
  {
    const prefer_node scope{memory_nodes_.get(), owner_->traits().node};
    place_blocks(pins);
    place_groups(pins);
    make_staging(pins);
    count_misplaced(scope.holds());
  }
  place_residents();
}

void placement::carve_memory() {
  const auto& transfers = plan_.transfers;
  std::vector<mutable_bytes> slot_regions(slots_.first);
  std::vector<mutable_bytes> input_regions(transfers.input_bytes == 0 ? 0 : transfer_plan::inputs);
  resident_regions_.resize(transfers.residents.size());
  if (const auto bytes = transfers.device_bytes(slots_.first); bytes != 0) {
    arena_.emplace(*owner_, bytes);
    for (std::size_t i = 0; i != resident_regions_.size(); ++i)
      resident_regions_[i] = arena_->carve(transfers.residents[i].layout.bytes);
    for (auto& each : slot_regions)
      each = arena_->carve(transfers.slot_bytes);
    for (auto& each : input_regions)
      each = arena_->carve(transfers.input_bytes);
    if (transfers.group_bytes != 0) {
      const auto region = arena_->carve(transfers.group_bytes);
      for (const auto& each : transfers.groups)
        groups_->add_memory(region.subspan(each.offset, each.layout.bytes));
    }
  }
  through_->open(slot_regions, input_regions);
  groups_->open();
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
  for (const auto& each : plan_.transfers.groups)
    group_units_.push_back(each.layout.bytes == 0 ? nullptr
                                                  : subject_->make_unit(each.path, each.layout));
  for (auto* units : {&blocks_, &residents_})
    for (auto& each : *units)
      each.leased = is_leased(*each.unit);
  leased_groups_.resize(group_units_.size());
  for (std::size_t i = 0; i != group_units_.size(); ++i)
    leased_groups_[i] = group_units_[i] != nullptr && is_leased(*group_units_[i]);
  group_transforms_.resize(group_units_.size());
  units_made_ = true;
  take_transforms();
}

std::vector<pin_candidate> placement::survey(bool packs) {
  if (bare_)
    return {};
  make_units();
  check_conversions();
  plan_.pinning.useful = owner_->traits().wants_pinned_sources;
  plan_.pinning.keep_mapped = plan_.pinning.keep_mapped || lease_ != nullptr;
  std::vector<pin_candidate> stores;
  std::size_t largest_block = 0;
  std::size_t largest_group = 0;
  for (std::size_t i = 0; i != blocks_.size(); ++i) {
    auto& store = stores.emplace_back(candidate(blocks_[i].path, *blocks_[i].unit));
    if (const auto* manifest = manifest_of(i)) {
      store.bytes = manifest->shard_bytes();
      store.replaces = 0;
      store.mapped = false;
    } else {
      store.mapped = store.mapped && blocks_[i].transforms.empty();
      if (packs)
        largest_block = std::max(largest_block, store.bytes);
    }
  }
  for (std::size_t i = 0; i != group_units_.size(); ++i) {
    stores.push_back(group_units_[i] == nullptr
                         ? pin_candidate{}
                         : candidate(groups_->groups()[i].path, *group_units_[i]));
    stores.back().mapped = stores.back().mapped && group_transforms_[i].empty();
    largest_group = std::max(largest_group, stores.back().bytes);
  }
  block_staging_ = staging_buffers::size_for(largest_block, plan_.piece_bytes);
  group_staging_ = staging_buffers::size_for(largest_group, plan_.piece_bytes);
  plan_.pinning.staging_bytes = staging_buffers::count * (block_staging_ + group_staging_);
  plan_pages();
  return stores;
}

void placement::check_conversions() const {
  if (owner_->traits().converts)
    return;
  const auto check = [&](const std::string& path, const weight_unit& unit) {
    if (converts(unit))
      throw ferry_error{{.code = errc::unsupported,
                         .detail = "copies to " + owner_->traits().name +
                                   " leave weights as they are stored, and those of '" + path +
                                   "' are of another type than they compute in; load the model in "
                                   "the type that its checkpoint has",
                         .block = path}};
  };
  for (const auto& each : blocks_)
    check(each.path, *each.unit);
  for (const auto& each : residents_)
    check(each.path, *each.unit);
  for (std::size_t i = 0; i != group_units_.size(); ++i)
    if (group_units_[i] != nullptr)
      check(groups_->groups()[i].path, *group_units_[i]);
}

// What was not pinned is known now. Without the buffers it is copied from where it is.
void placement::make_staging(const pin_plan& pins) {
  if (!pins.stages())
    return;
  const auto stays = [](const host_master* master) {
    return master != nullptr && needs_staging(master->segments());
  };
  const auto any_block = std::ranges::any_of(
      blocks_, [&](const placed_unit& each) { return !each.shard && stays(&*each.master); });
  const auto any_group = std::ranges::any_of(groups_->groups(), [&](const auto& each) {
    return each.stager != nullptr && stays(each.stager->master());
  });
  try {
    if (any_block && block_staging_ != 0)
      through_->add_staging(block_staging_);
    if (any_group && group_staging_ != 0)
      groups_->add_buffers(group_staging_);
  } catch (const device_error& refused) {
    if (refused.code() != errc::out_of_host_memory)
      throw;
    log(log_level::warn, "ferry.actors", std::string{"stage no stores reason="} + refused.what());
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

void placement::hook_groups(const std::shared_ptr<group_gate>& gate) {
  for (const auto& group : plan_.transfers.groups)
    for (const auto module : group.entries) {
      subject_->install_group_hook(module, group.id, gate);
      group_hooks_.push_back(module);
    }
}

void placement::place_groups(const pin_plan& pins) {
  for (std::size_t i = 0; i != group_units_.size(); ++i) {
    if (group_units_[i] == nullptr)
      continue;
    auto& group = groups_->groups()[i];
    settle(*group_units_[i], group_transforms_[i]);
    const stager_options how{.path = group.path,
                             .master = options_of(pins.pins(blocks_.size() + i))};
    group.stager = std::make_unique<module_stager>(*owner_, std::move(group_units_[i]), how,
                                                   groups_->memory_of(i));
    if (!is_kept(*group.stager->master()))
      count_pageable(group.stager->master()->segments());
  }
}

// Unit by unit, so that the host never holds more than one block twice.
void placement::place_blocks(const pin_plan& pins) {
  for (std::size_t i = 0; i != blocks_.size(); ++i) {
    auto& placed = blocks_[i];
    if (manifest_of(i) != nullptr) {
      place_shard(i, pins.pins(i));
      continue;
    }
    settle(*placed.unit, placed.transforms);
    placed.master = make_master(*owner_, *placed.unit, options_of(pins.pins(i)));
    placed.displaced = true;
    placed.unit->park();
    if (placed.master->replaces_originals())
      placed.unit->drop_originals();
    if (!is_kept(*placed.master))
      count_pageable(placed.master->segments());
    through_->add_sources(plan_.transfers.blocks[i].id, placed.master->segments(),
                          binds_originals(placed));
  }
}

bool placement::binds_originals(const placed_unit& placed) noexcept {
  return !placed.master->replaces_originals();
}

const gather_manifest* placement::manifest_of(std::size_t block) const noexcept {
  const auto& gathers = plan_.transfers.gathers;
  return gathers.empty() || !gathers[block] ? nullptr : &*gathers[block];
}

// The originals stay where they are: a checkpoint's pages are shared by all ranks, and a disable
// needs no other rank.
void placement::place_shard(std::size_t block, bool pin) {
  auto& placed = blocks_[block];
  const auto& manifest = *manifest_of(block);
  if (!pin)
    settle(*placed.unit, placed.transforms);
  placed.master = make_master(*owner_, *placed.unit, {.pin = false});
  if (pin && !placed.transforms.empty())
    placed.shard = pin_transformed(placed, manifest);
  else if (pin)
    placed.shard = host_shard::pinned(*owner_, *placed.master, manifest, plan_.rank);
  else
    placed.shard = host_shard::kept(*placed.master, manifest, plan_.rank);
  placed.displaced = true;
  placed.unit->park();
  count_pageable(placed.shard->segments());
  through_->add_shard(plan_.transfers.blocks[block].id, {&manifest, &*placed.shard});
}

bool placement::is_kept(const host_master& master) const noexcept {
  return plan_.pinning.keep_mapped &&
         std::ranges::any_of(master.segments(), [](const host_master::segment& each) {
           return each.kind == memory_kind::mapped;
         });
}

void placement::count_pageable(std::span<const host_master::segment> from) noexcept {
  const auto& wish = plan_.pinning;
  const auto is_slow = std::ranges::any_of(from, [](const host_master::segment& each) {
    return each.kind != memory_kind::pinned && each.kind != memory_kind::registered;
  });
  if (wish.wanted && wish.useful && is_slow)
    ++pageable_stores_;
}

// Residents are loaded once: their originals are good enough as sources.
void placement::place_residents() {
  for (std::size_t i = 0; i != residents_.size(); ++i) {
    settle(*residents_[i].unit, residents_[i].transforms);
    residents_[i].master = make_master(*owner_, *residents_[i].unit, {.pin = false});
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
