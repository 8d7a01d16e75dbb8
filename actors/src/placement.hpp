// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/bare_weights.hpp>
#include <ferry/offload/block_gate.hpp>
#include <ferry/offload/group_gate.hpp>
#include <ferry/offload/host_lease.hpp>
#include <ferry/offload/host_master.hpp>
#include <ferry/offload/host_registration.hpp>
#include <ferry/offload/loader_transforms.hpp>
#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/pin_plan.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/slot_depth.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/offload/weight_rewrite.hpp>
#include <ferry/platform/arena.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/numa.hpp>

#include "placement_plan.hpp"
#include "staging.hpp"
#include "streaming.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// What the loader of a pipeline has left to its backend.
struct left_weights {
  std::shared_ptr<host_lease> lease = nullptr;             ///< Null: all weights are its own.
  std::shared_ptr<loader_transforms> transforms = nullptr; ///< Null: all are as computed with.
};

/// Records what uses of blocks take on a device, for as long as it lives.
struct device_watch {
  explicit device_watch(device& watched) : owner(watched) { owner.attach(uses); }
  device_watch(const device_watch&) = delete;
  device_watch& operator=(const device_watch&) = delete;
  ~device_watch() { owner.detach(uses); }

  device& owner;
  use_recorder uses;
};

/// How many slots a backend begins with, and how many it may come to have.
struct slot_numbers {
  std::size_t first = 2;
  std::size_t most = 2;
};

/// The weights of one enabled backend: where they are on the host, and what they have on the
/// device. Used by one thread at a time.
///
/// Every step remembers what it is about to do before it does it, so that `take_back` undoes any
/// part of an enable. A failed enable, a disable and a stop all run that one undo.
class placement {
public:
  placement(device& owner, std::shared_ptr<pipeline> subject, left_weights left,
            placement_plan plan, slot_numbers slots,
            std::shared_ptr<const numa_nodes> memory_nodes);
  placement(device& owner, std::shared_ptr<const bare_weights> weights, slot_numbers slots);
  placement(const placement&) = delete;
  placement& operator=(const placement&) = delete;

  [[nodiscard]] const std::shared_ptr<streaming>& through() const noexcept { return through_; }
  [[nodiscard]] const std::shared_ptr<staging>& groups() const noexcept { return groups_; }
  [[nodiscard]] const placement_plan& plan() const noexcept { return plan_; }
  [[nodiscard]] std::uint64_t pinned_bytes() const noexcept;
  /// Returns the components with where their weights are now.
  [[nodiscard]] std::map<std::string, component_state> components() const;
  /// Returns how many stores are not pinned although that was wanted and useful.
  [[nodiscard]] std::size_t pageable_stores() const noexcept { return pageable_stores_; }
  /// Returns how many blocks the device computes with in place.
  [[nodiscard]] std::size_t blocks_in_place() const noexcept;
  /// Returns how many stores go through staging buffers.
  [[nodiscard]] std::size_t staged_stores() const noexcept;
  /// Returns what the device has registered of leased weights.
  [[nodiscard]] std::uint64_t registered_bytes() const noexcept;
  /// Returns why there is nothing registered; nothing if there is, or no weights are leased.
  [[nodiscard]] const std::optional<failure>& not_registered() const noexcept {
    return not_registered_;
  }
  /// Returns how many pinned stores have pages off the node of the device.
  [[nodiscard]] std::size_t misplaced_stores() const noexcept { return misplaced_stores_; }
  [[nodiscard]] std::size_t device_bytes() const noexcept {
    return (arena_ ? arena_->size() : 0) + added_slots_.size() * plan_.transfers.slot_bytes;
  }

  /// Names what the model uses right now, for messages.
  [[nodiscard]] std::string held() const;

  /// Sends a component that stages itself to the device or back, by its own methods.
  /// @throws ferry_error `not_found` for a path that is no component, `unsupported` for a component
  /// that does not stage itself
  void stage_on_demand(const std::string& path, bool in);

  /// Checks an update against the tensors that there are. Fails as `update_weights`, before
  /// anything has changed.
  [[nodiscard]] result<std::vector<weight_place>> check(const weight_update& update);

  /// Returns contents of a component by name, all of them for no names. Fails with `unsupported`
  /// where the host has them only as they are stored.
  [[nodiscard]] result<weight_snapshot> read(const std::string& component,
                                             const std::vector<std::string>& names);

  /// Makes ready to write at `places`. @pre the groups are away, and nothing reads the masters
  [[nodiscard]] std::unique_ptr<weight_rewrite> rewrite(std::vector<weight_place> places);

  /// Returns whether one of them is on the device for good.
  [[nodiscard]] bool touches_residents(std::span<const weight_place> places) const noexcept;

  /// Counts an update.
  weight_version updated(const std::string& component);

  /// Makes the units and returns the host stores that they are going to need, in the order in which
  /// they are filled. Touches nothing of the pipeline. Empty where the stores are there already.
  /// @param packs there is somebody who packs blocks that are staged
  [[nodiscard]] std::vector<pin_candidate> survey(bool packs);

  /// Returns the bytes of pages that are to be registered. @pre `survey`
  [[nodiscard]] std::uint64_t pages_wanted() const noexcept { return pages_wanted_; }

  /// Leaves the pages as they are. Leased weights are copied from them all the same.
  void leave_pages(failure reason);

  /// Registers the pages that are wanted, all of them or none: then they are left as they are.
  /// @throws ferry_error `incomplete` if none are to be registered but some are left
  void register_pages(const std::shared_ptr<device>& owner);

  /// Takes the memory on the device. Touches nothing of the pipeline; a failure has changed
  /// nothing.
  /// @throws ferry_error `out_of_device_memory`
  void carve_memory();

  /// Makes blocks and groups go through their gates, makes the masters and parks both. The
  /// residents may be loaded afterwards. A module that has a hook belongs to somebody else: then
  /// nothing of the pipeline has been touched. @pre `carve_memory`
  void prepare(const std::shared_ptr<block_gate>& blocks, const std::shared_ptr<group_gate>& groups,
               const pin_plan& pins);

  /// Binds the residents, which have been loaded, and sends components that stage themselves off.
  void bind();

  /// Watches what uses of blocks take from now on, if there may come to be more slots.
  void watch_uses();

  /// Waits until the device has run what the model has enqueued, and adds the slots that would have
  /// been worth having, as far as there is memory for them, at most `ceiling` for everything.
  /// Between requests. @pre the model is outside
  void add_slots_worth_having(std::optional<std::uint64_t> ceiling);

  /// Takes the hooks off, makes the tensors ordinary and gives the memory back. Fails with
  /// `incomplete` if a hook stays, a unit could not be restored or pages stay registered: then
  /// keeps it, its master and all memory, and may be repeated. @pre no work on the device touches
  /// the memory any more
  [[nodiscard]] result<void> take_back();

  /// Closes the lease, of which the pipeline has copies now. Lets go of it instead if pages of it
  /// are left with a device that has failed for good, or if nothing of the pipeline was touched.
  /// Fails as `host_lease::close`, and is over then too. @pre `take_back`
  [[nodiscard]] result<void> end_lease();

private:
  using pending = std::vector<pending_transform>;

  struct placed_unit {
    std::unique_ptr<weight_unit> unit;
    std::optional<host_master> master;
    std::optional<host_shard> shard; ///< What this rank sends of a block that ranks gather.
    std::string path;
    pending transforms;     ///< Of its originals, until they are done.
    bool leased = false;    ///< Some of its originals are in the lease.
    bool displaced = false; ///< Not ordinary, or on the way there.
    object_id hooked{};     ///< The module with our hook, 0 if none.
  };

  [[nodiscard]] bool is_leased(const weight_unit& unit) const;
  void take_transforms();
  static void settle(weight_unit& unit, pending& transforms);
  [[nodiscard]] host_shard pin_transformed(const placed_unit& placed,
                                           const gather_manifest& manifest) const;
  void plan_pages();
  void own_originals(weight_unit& unit) const;
  [[nodiscard]] weight_unit& unit_of_group(std::size_t index);
  [[nodiscard]] master_options options_of(bool pin) const noexcept;
  [[nodiscard]] std::optional<failure> unregister_pages();
  [[nodiscard]] std::vector<unit_store> stores();
  [[nodiscard]] result<weight_places> places_in(const std::string& component);
  void point_sources() noexcept;
  void make_units();
  void hook_blocks(const std::shared_ptr<block_gate>& gate);
  void hook_groups(const std::shared_ptr<group_gate>& gate);
  void place_blocks(const pin_plan& pins);
  void place_shard(std::size_t block, bool pin);
  [[nodiscard]] static bool binds_originals(const placed_unit& placed) noexcept;
  [[nodiscard]] const gather_manifest* manifest_of(std::size_t block) const noexcept;
  void place_groups(const pin_plan& pins);
  void place_residents();
  void make_staging(const pin_plan& pins);
  /// Returns whether a master is in files because it is to stay there.
  [[nodiscard]] bool is_kept(const host_master& master) const noexcept;
  /// @throws ferry_error `unsupported` for weights that nobody converts
  void check_conversions() const;
  void count_pageable(std::span<const host_master::segment> from) noexcept;
  void count_misplaced(bool preferred);
  [[nodiscard]] bool add_slot(std::optional<std::uint64_t> ceiling);
  [[nodiscard]] std::optional<failure> unhook_all();
  [[nodiscard]] std::optional<failure> restore_all();

  device* owner_;
  std::shared_ptr<pipeline> subject_;
  std::shared_ptr<host_lease> lease_;
  std::shared_ptr<loader_transforms> left_transforms_; ///< Until they are taken on.
  std::unique_ptr<host_registration> registered_;
  std::optional<failure> not_registered_;
  std::vector<const_bytes> leased_sources_; ///< What copies are to read of the lease.
  std::uint64_t pages_wanted_ = 0;
  bool units_made_ = false; ///< All of them.
  bool pages_left_ = false; ///< Some stay registered, and the lease with them.
  std::shared_ptr<const bare_weights> bare_;
  placement_plan plan_;
  slot_numbers slots_;
  std::shared_ptr<const numa_nodes> memory_nodes_;
  std::shared_ptr<streaming> through_;
  std::optional<arena> arena_;
  std::vector<memory_block> added_slots_;
  std::optional<device_watch> watch_; ///< While there may come to be more slots.
  std::vector<mutable_bytes> resident_regions_;
  std::vector<placed_unit> blocks_;
  std::vector<placed_unit> residents_;
  std::size_t block_staging_ = 0; ///< Size of one buffer for blocks, 0 for none.
  std::size_t group_staging_ = 0; ///< The same for groups.
  std::size_t pageable_stores_ = 0;
  std::size_t misplaced_stores_ = 0;
  std::shared_ptr<staging> groups_;
  std::vector<std::unique_ptr<weight_unit>> group_units_; ///< Until their stagers own them.
  std::vector<bool> leased_groups_;                       ///< As `leased` of a unit.
  std::vector<pending> group_transforms_;                 ///< As `transforms` of a unit.
  std::vector<object_id> group_hooks_;                    ///< Modules with our hook.
};

} // namespace ferry
