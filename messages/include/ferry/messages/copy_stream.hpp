// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/comm_stream.hpp>
#include <ferry/messages/host_packer.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/transfer_plan.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace ferry {

class streaming;

/// Takes on the slots and host masters of an enabled backend, and loads its residents. The worker
/// shares `through` with the other actors of the backend until `close_copies`.
struct open_copies {
  std::shared_ptr<streaming> through;
  comm_stream_actor gathers; ///< Gathers the blocks that are to be; null if none is.
  gather_pipelining pipelining = gather_pipelining::overlapped;
  host_packer_actor packer = {}; ///< Packs the blocks that are staged; null if none is.
  std::chrono::nanoseconds patience{std::chrono::minutes{1}}; ///< For each piece to be packed.
  causal_stamp stamp;
};

/// Copies the residents to the device once more, after their masters changed.
struct reload_residents {
  causal_stamp stamp;
};

/// Copies one block into one slot, or this rank's part of a block that ranks gather to where it is
/// sent from.
struct fetch_block {
  block_id block{};
  slot_id slot{};
  std::uint64_t generation = 0;
  bool after_last_use = false; ///< The slot's last-use event must be waited for.
  std::uint64_t sequence = 0;  ///< Of the first piece of a block that is gathered.
  causal_stamp stamp;
  bool demanded = false; ///< The model waits for it.
  sent_time sent = {};
};

/// The gather of a piece is enqueued, so that its buffer may be filled again behind it.
struct piece_sent {
  std::uint64_t sequence = 0;
  causal_stamp stamp;
  sent_time sent = {};
};

/// Makes what a slot holds worthless, after the copies into it.
struct discard_slot {
  slot_id slot{};
  causal_stamp stamp;
  sent_time sent = {};
};

/// Records everything enqueued so far, for whoever has to wait until it has run.
struct drain_copies {
  causal_stamp stamp;
};

/// Lets go of the backend.
struct close_copies {
  causal_stamp stamp;
};

/// Owns the copy stream of one device: moves weights from host masters to the device, in the order
/// asked for, through the packer where they are staged. Handlers enqueue and never wait.
using copy_stream_actor = actor_interface<
    // Answers once the copies of the residents are enqueued and their event is recorded. Fails with
    // the device's failure, `busy` if a backend is open, or the cause of a drain.
    caf::result<answered>(open_copies),
    // Answers once the copies are enqueued and the event of the residents is recorded. Fails with
    // `not_enabled`, the device's failure, or the cause of a drain; some copies may be enqueued
    // then.
    caf::result<answered>(reload_residents),
    // Publishes the slot on the backend's ticket board once its copies are enqueued. A failure goes
    // to the board, where the model thread sees it at once, and to the supervisor. Without an open
    // backend, or once drained, nothing happens.
    // A block that is gathered is published by the communication worker. Until it is enqueued, what
    // was asked for later waits, except for gathers that find a free buffer. So it waits for a
    // block that is staged, which is a failed one if the packer fails or is too late.
    caf::result<void>(fetch_block),
    // Without an open backend, or once drained, nothing happens.
    caf::result<void>(piece_sent),
    // As `fetch_block`, but publishes nothing.
    caf::result<void>(discard_slot),
    // Answers once the backend's drain event is recorded behind everything enqueued so far. Works
    // on a drained worker too. Fails with the device's failure.
    caf::result<answered>(drain_copies),
    // Never fails; without an open backend nothing happens.
    caf::result<answered>(close_copies),
    // As every child.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::open_copies)
FERRY_LOCAL_MESSAGE(ferry::reload_residents)
FERRY_LOCAL_MESSAGE(ferry::fetch_block)
FERRY_LOCAL_MESSAGE(ferry::discard_slot)
FERRY_LOCAL_MESSAGE(ferry::drain_copies)
FERRY_LOCAL_MESSAGE(ferry::piece_sent)
FERRY_LOCAL_MESSAGE(ferry::close_copies)
