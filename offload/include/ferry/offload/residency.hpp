// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/schedule_model.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// For how many blocks there is room.
struct resident_room {
  std::optional<std::size_t> bytes; ///< So many at most, by the sizes of blocks.
  std::optional<std::size_t> count; ///< Exactly so many, or all there are. One of the two is given.
};

/// A stack of which some blocks are to stay: what each takes when it is streamed, and its bytes.
struct streamed_stack {
  std::span<const block_cost> costs;
  std::span<const std::size_t> bytes;
  schedule_options how = {};
};

/// Returns for each block whether it stays, so that a run through the stack takes as short as may
/// be by the schedule model: residents are spread where the link falls behind compute, so that it
/// never idles while compute waits later. Within a room of bytes no block stays that makes nothing
/// shorter, and never all but one.
///
/// Deterministic; takes a fraction of a second however many blocks there are.
[[nodiscard]] std::vector<bool> choose_residents(const streamed_stack& stack,
                                                 const resident_room& room, residency which);

/// The same where only sizes are known: blocks take the link in proportion to them, and compute
/// equally long, together as long as the link takes for what is left.
[[nodiscard]] std::vector<bool> residents_in_bytes(std::span<const std::size_t> bytes,
                                                   std::size_t most, residency which);
[[nodiscard]] std::vector<bool> residents_by_number(std::span<const std::size_t> bytes,
                                                    std::size_t count, residency which);

} // namespace ferry
