// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/rank_ballot.hpp>
#include <ferry/offload/wave_terms.hpp>
#include <ferry/platform/device.hpp>

#include <string>

namespace ferry {

/// This rank could start, and says with what.
struct vote_to_start {
  rank_ballot ballot;
};

/// This rank is about to begin a request.
struct join_wave {
  std::string ballot; ///< Of `to_ballot`.
  nanoseconds patience{};
};

/// This rank goes no further: nobody is to wait for it.
struct leave_ranks {
  failure cause;
};

/// Stands between a start on this rank and the first collective: no rank passes unless all do.
/// Blocks in its own thread while it waits for the others.
using rank_gate_actor = actor_interface<
    // Answers once every rank has voted, with equal ballots. Fails on all ranks with the first
    // cause and its rank: a rank that left, died, was late, or has another ballot
    // (`invalid_config`, naming the ranks and what differs). After a failure every vote fails.
    caf::result<void>(vote_to_start),
    // Answers once every rank is about to begin. Refuses a wave on all ranks as `admit_wave` does,
    // and the next may be joined; fails on all ranks, for good, with the first cause: a rank that
    // left, died, or did not come within `patience`.
    caf::result<void>(join_wave),
    // Fails the current and all later votes of all ranks, unless they have failed already.
    caf::result<void>(leave_ranks),
    // As every child. A drain because of a failure is leaving.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::vote_to_start)
FERRY_LOCAL_MESSAGE(ferry::join_wave)
FERRY_LOCAL_MESSAGE(ferry::leave_ranks)
