// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/weight_update.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What offloading made of one component. Sizes count shared storage once.
struct component_state {
  std::size_t bytes = 0;
  bool selected = false;
  bool on_demand = false;
  std::size_t blocks = 0;              ///< All blocks of its stacks.
  std::size_t streamed_bytes = 0;      ///< What the ring moves for one pass over all its blocks.
  std::size_t largest_block_bytes = 0; ///< As it lies in a slot.
  std::size_t resident_blocks = 0;     ///< Blocks that are not streamed.
  std::size_t blocks_in_place = 0;     ///< Streamed ones that are computed with in their files.
  weight_version version{};            ///< Of its weights.

  /// All of it that the ring does not stream is on the device now: it stays there, or it came as a
  /// whole. False where only what stays beside streamed blocks is, and where a component stages
  /// itself, because nobody sees what its own methods do.
  bool on_device = false;

  // Where its weights are now, as they lie there. What a component stages itself counts nowhere.
  std::size_t device_bytes = 0;   ///< Padding included, without the slots, which all share.
  std::size_t pinned_bytes = 0;   ///< Of its host masters; padding included in copies.
  std::size_t pageable_bytes = 0; ///< Of its host masters: other memory, and pages of files.
};

/// A moment in the life of a runtime, by value.
struct offload_state {
  offload_strategy strategy = offload_strategy::none;
  bool enabled = false;
  bool in_request = false;
  std::size_t requests_waiting = 0;     ///< For their turn.
  std::optional<failure> first_failure; ///< Set once a transfer failed; only disable works then.

  std::map<std::string, component_state> components; ///< By path. Empty for bare weights.
  std::vector<std::string> blocks;                   ///< Paths of what is streamed, by `block_id`.
  std::size_t slots = 0;
  std::size_t slot_bytes = 0;     ///< Of one slot.
  std::size_t resident_bytes = 0; ///< On the device for as long as the backend is enabled.
  std::uint64_t pinned_bytes = 0;
  std::uint64_t registered_bytes = 0; ///< Pages of leased weights that the device reads itself.
  std::string not_registered = {};  ///< Why there are none. Empty: there are, or nothing is leased.
  std::size_t pageable_stores = 0;  ///< Host copies left pageable although pinning was wanted.
  std::size_t staged_stores = 0;    ///< Host copies that go through staging buffers.
  std::size_t misplaced_stores = 0; ///< Pinned ones with pages off the device's node.
  std::uint64_t peak_device_weight_bytes =
      0; ///< Most taken for them: all of the arena, and slots added.

  // Since enable.
  std::uint64_t collectives = 0;    ///< Of this rank, since the enable.
  std::uint64_t gathered_bytes = 0; ///< That they brought, padding and own part included.
  std::uint64_t prefetches = 0;     ///< Fetches submitted before their block was asked for.
  std::uint64_t blocking_loads = 0; ///< Fetches that only began when their block was asked for.
  std::uint64_t block_uses = 0;     ///< Times a streamed block was acquired.
  std::uint64_t block_passes = 0;   ///< Bodies that ran in them: several where passes share a use.
  std::uint64_t device_allocations = 0;

  std::uint32_t tickets_in_flight = 0; ///< Slots asked for, submitted or in use now.
  std::uint32_t slots_free = 0;
};

} // namespace ferry
