// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ferry {

class streaming;

/// Takes on an enabled backend, which is shared with the other actors until `close_packing`.
struct open_packing {
  std::shared_ptr<streaming> through;
  causal_stamp stamp;
};

/// Packs one piece of a block into the staging buffer whose turn it is. The last copy from that
/// buffer is enqueued, and its event recorded.
struct pack_piece {
  block_id block{};
  std::size_t piece = 0;  ///< Of the block, from 0.
  std::uint64_t turn = 0; ///< Of this piece among all of the backend.
  causal_stamp stamp;
  sent_time sent = {};
};

/// Is answered when what was asked for before is packed.
struct drain_packing {
  causal_stamp stamp;
};

/// Lets go of the backend.
struct close_packing {
  causal_stamp stamp;
};

/// Copies weights that are not in pinned memory into staging buffers that are, from where the copy
/// worker takes them to the device. It blocks: for the last copy from a buffer, and for the pages
/// of a file.
using host_packer_actor = actor_interface<
    // Fails with `busy` if a backend is open, or the cause of a drain.
    caf::result<answered>(open_packing),
    // Answers once the piece is packed. Fails with the device's failure, `not_enabled`, or the
    // cause of a drain.
    caf::result<answered>(pack_piece),
    // Works on a drained packer too. Fails with `not_enabled`.
    caf::result<answered>(drain_packing),
    // Never fails; without an open backend nothing happens.
    caf::result<answered>(close_packing),
    // As every child.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::open_packing)
FERRY_LOCAL_MESSAGE(ferry::pack_piece)
FERRY_LOCAL_MESSAGE(ferry::drain_packing)
FERRY_LOCAL_MESSAGE(ferry::close_packing)
