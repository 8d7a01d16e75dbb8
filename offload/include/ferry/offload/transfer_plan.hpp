// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/gather_manifest.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/packing.hpp>
#include <ferry/offload/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// How copies of what a rank sends follow the gathers of what it sent before.
enum class gather_pipelining : std::uint8_t {
  overlapped,   ///< A piece is copied while the piece before it is gathered.
  back_to_back, ///< A piece is copied once the piece before it is gathered: one of the two at a
                ///< time.
};

/// One streamed block.
struct planned_block {
  block_id id{};
  std::string path;
  object_id node{};
  packed_layout layout;
};

/// The streamed blocks of one stack, in declaration order.
struct planned_ring {
  std::string path; ///< Of the component, with the list where there are several.
  std::vector<block_id> blocks;
  component_name component = component_name::dit; ///< Whose transfer the blocks have.
};

/// Tensors that stay on the device while the backend is enabled.
struct planned_resident {
  std::string path; ///< Of the component.
  packed_layout layout;
};

/// Tensors that come to the device and go as a whole: a component, or the resident blocks of a DiT.
struct planned_group {
  group_id id{};
  std::string path;     ///< Of the component.
  packed_layout layout; ///< No bytes: the component is resident, its use only makes others leave.
  std::vector<object_id> entries; ///< The modules whose entry points need the group.
  std::size_t computes = 1;       ///< Blocks that one use of it runs.
  std::vector<group_id> excludes; ///< What leaves the device before the group comes.
  std::size_t offset = 0; ///< In the region that groups share; apart from what may be there too.
};

/// What has to be moved, in bytes: the resolved plan with every tensor given its place.
///
/// A storage that two units use in overlapping ranges (tied weights, an embedding shared with a
/// head) belongs to a resident unit, so that it exists once and all ties see it.
struct transfer_plan {
  std::vector<planned_block> blocks; ///< By `block_id`.
  std::vector<planned_ring> rings;   ///< Encoders first, then DiTs, in the resolved order.
  std::vector<planned_resident> residents;
  std::vector<planned_group> groups; ///< By `group_id`, encoders first.
  /// By `block_id`, how ranks gather the block; nothing: it comes from this rank alone. Empty if no
  /// block is gathered.
  std::vector<std::optional<gather_manifest>> gathers;
  std::size_t slot_bytes = 0;     ///< The largest block, aligned, with what gathering adds.
  std::size_t input_bytes = 0;    ///< The largest piece that a rank sends, aligned.
  std::size_t resident_bytes = 0; ///< Sum over `residents`, aligned.
  std::size_t group_bytes = 0;    ///< Of the region that groups share, aligned.

  /// What is sent next is copied while another piece is still being sent.
  static constexpr std::size_t inputs = 2;

  /// Returns the device memory that `slots` slots, the pieces to send, the groups and the residents
  /// need.
  [[nodiscard]] std::size_t device_bytes(std::size_t slots) const noexcept {
    return resident_bytes + group_bytes + slots * slot_bytes + inputs * input_bytes;
  }
};

/// Gives every tensor of a plan its place. Pure.
///
/// With `model_level` every selected encoder and DiT is a group. A DiT and what is selected beside
/// it exclude each other; encoders may be there together. An unselected one is resident and still
/// makes the others leave. A stack's resident blocks are a group under every strategy.
[[nodiscard]] transfer_plan plan_transfers(const resolved_offload_plan& resolved);

} // namespace ferry
