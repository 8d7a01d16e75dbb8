// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/ids.hpp>

#include <cstdint>
#include <memory>

namespace ferry {

class streaming;

/// Takes on the slots of an enabled backend. The prefetcher shares `through` with the other actors
/// of the backend until `close_ring`.
struct open_ring {
  std::shared_ptr<streaming> through;
  causal_stamp stamp;
};

/// Lets go of the backend.
struct close_ring {
  causal_stamp stamp;
};

/// Takes back what was fetched ahead, without forgetting what runs next.
struct empty_ring {
  causal_stamp stamp;
};

/// Fetches ahead again.
struct refill_ring {
  causal_stamp stamp;
};

/// The model thread needs a block that it did not find submitted.
struct demand_block {
  block_id block{};
  causal_stamp stamp;
  sent_time sent = {};
};

/// The model thread has enqueued the last use of a slot and recorded its last-use event.
struct block_released {
  block_id block{};
  slot_id slot{};
  std::uint64_t generation = 0;
  causal_stamp stamp;
  sent_time sent = {};
};

struct query_ring {};

struct ring_counts {
  std::uint64_t prefetches = 0;     ///< Fetches submitted before their block was asked for.
  std::uint64_t blocking_loads = 0; ///< Fetches submitted because their block was asked for.
};

/// Decides which block each slot of one slot arena fetches next. Everything it does follows from
/// the order of its messages, so that a run does not depend on how threads were scheduled.
using block_prefetcher_actor = actor_interface<
    // Answers once the first blocks are on their way. Fails with `busy` if a backend is open, or
    // the cause of a drain.
    caf::result<answered>(open_ring),
    // Revokes every ticket that is not in use; answers when their slots are being discarded. Never
    // fails; without an open backend nothing happens.
    caf::result<answered>(close_ring),
    // Answers once the first predicted blocks are on their way. Fails with `not_enabled`, with
    // `busy` inside another request, with `not_found` as `announce_blocks` (the request has begun
    // then), or the cause of a drain.
    caf::result<answered>(begin_request),
    // Revokes what was fetched and not used, answers when every slot is free or being discarded.
    // Where ranks gather blocks, whatever is left of the announced ones is fetched before that: the
    // other ranks wait for this one's part.
    // Fails with `not_enabled`, outside a request, or with `busy` while a block is in use.
    caf::result<answered>(end_request),
    // Answers when every slot is free or being discarded; nothing is fetched until the next message
    // that asks for it. Fails with `not_enabled`, or with `busy` inside a request or while a block
    // is in use.
    caf::result<answered>(empty_ring),
    // Answers once the first predicted blocks are on their way. Fails with `not_enabled`, or the
    // cause of a drain.
    caf::result<answered>(refill_ring),
    // Answers at once. Fails with `not_enabled`, or `not_found` for a block nobody knows.
    caf::result<answered>(announce_blocks),
    // Fetches the block next if it is not on its way. A failure goes to the ticket board.
    caf::result<void>(demand_block),
    // Fetches the next predicted block into the slot. A stale release is a failure, on the board.
    caf::result<void>(block_released),
    // Never fails; zero without an open backend.
    caf::result<ring_counts>(query_ring),
    // As every child.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::open_ring)
FERRY_LOCAL_MESSAGE(ferry::close_ring)
FERRY_LOCAL_MESSAGE(ferry::empty_ring)
FERRY_LOCAL_MESSAGE(ferry::refill_ring)
FERRY_LOCAL_MESSAGE(ferry::demand_block)
FERRY_LOCAL_MESSAGE(ferry::block_released)
FERRY_LOCAL_MESSAGE(ferry::query_ring)
FERRY_LOCAL_MESSAGE(ferry::ring_counts)
