// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/platform/device.hpp>

#include <vector>

namespace ferry {

/// When a message was sent, for traces. Those that come with every block have it.
struct sent_time {
  nanoseconds at{}; ///< On the clock of the sender's device; 0: nobody records.
};

// What several protocols have in common. Every message between host threads of control carries the
// stamp of its sender, so that the receiver knows what device work is ordered before it.

/// The answer of an actor that has touched the device.
struct answered {
  causal_stamp stamp;
};

/// A request starts: bring the blocks that it will need first on their way.
struct begin_request {
  causal_stamp stamp;
  std::vector<block_id> blocks = {}; ///< As `announce_blocks`, from the start.
};

/// The request is over: nothing but the resident weights stays on the device.
struct end_request {
  causal_stamp stamp;
};

/// The blocks that will run next, in this order. Followed before anything that was learned.
struct announce_blocks {
  std::vector<block_id> blocks;
  causal_stamp stamp;
};

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::answered)
FERRY_LOCAL_MESSAGE(ferry::begin_request)
FERRY_LOCAL_MESSAGE(ferry::end_request)
FERRY_LOCAL_MESSAGE(ferry::announce_blocks)
