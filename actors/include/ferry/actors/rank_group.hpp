// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/communicator.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <memory>

namespace ferry {

/// This rank's ends of a group of runtimes that start together and gather blocks from each other.
/// All ranks enable, begin, announce, end and disable the same things in the same order, and run
/// the same blocks, but for what `wave_terms` allow: to leave a wave early, or to run nothing in
/// it.
///
/// A stop leaves the group for good, unless somebody else keeps the ends: others that need this
/// rank later fail, naming it.
///
/// A group whose rank failed is of no use any more, on any rank: make a new one.
struct rank_group {
  std::shared_ptr<rendezvous> meeting;
  /// Used for nothing else: the order of its collectives is the runtime's own.
  std::shared_ptr<communicator> gathers;
  /// For the slowest rank to come to a start, and for a block that is staged behind a gather: as
  /// long as `gathers` waits for a rank.
  nanoseconds patience{std::chrono::seconds{60}};
  /// Of this rank; others may choose otherwise. `back_to_back` is what other systems do, for
  /// comparison: it is never faster.
  gather_pipelining pipelining = gather_pipelining::overlapped;
};

} // namespace ferry
