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

/// Takes on an enabled backend, which is shared with the other actors until `close_gathers`.
struct open_gathers {
  std::shared_ptr<streaming> through;
  causal_stamp stamp;
};

/// Gathers one piece of a block. What this rank sends of it is on its way to `input`.
struct gather_piece {
  block_id block{};
  slot_id slot{};
  std::uint64_t generation = 0;
  std::uint32_t chunk = 0;     ///< Of the block's manifest. Publishes the block if it is the last.
  std::uint64_t sequence = 0;  ///< Of this collective among all of the backend, from 0.
  bool after_last_use = false; ///< The slot's last-use event must be waited for.
  causal_stamp stamp;
  sent_time sent = {};
};

/// Records everything enqueued so far, for whoever has to wait until it has run.
struct drain_gathers {
  causal_stamp stamp;
};

/// Lets go of the backend.
struct close_gathers {
  causal_stamp stamp;
};

/// Owns the communication stream of one rank and its communicator, which nobody else uses: puts
/// blocks together from what all ranks send. Collectives are enqueued in the order of their
/// sequence numbers, which is the same on all ranks, whatever order messages come in. Handlers
/// enqueue and never wait.
using comm_stream_actor = actor_interface<
    // Fails with `busy` if a backend is open, or the cause of a drain.
    caf::result<answered>(open_gathers),
    // Tells the copy worker once the gather is enqueued (`piece_sent`). A failure goes to the
    // backend's ticket board, to the supervisor, and to all other ranks. Without an open backend,
    // or once drained, nothing happens.
    caf::result<void>(gather_piece),
    // Answers once the backend's event is recorded behind everything enqueued so far. Works on a
    // drained worker too. Fails with the device's failure.
    caf::result<answered>(drain_gathers),
    // Never fails; without an open backend nothing happens.
    caf::result<answered>(close_gathers),
    // As every child. A drain because of a failure fails the group with that cause.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::open_gathers)
FERRY_LOCAL_MESSAGE(ferry::gather_piece)
FERRY_LOCAL_MESSAGE(ferry::drain_gathers)
FERRY_LOCAL_MESSAGE(ferry::close_gathers)
