// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/offload_state.hpp>

#include <memory>

namespace ferry {

class block_gate;
class pipeline;
struct bare_weights;

/// Offloads a pipeline. The offloader owns a share of it until it is disabled, and is the only one
/// to touch its tensors while it answers.
struct enable_pipeline {
  std::shared_ptr<pipeline> subject;
  offload_config config;
  causal_stamp stamp;
};

/// Streams bytes that belong to no pipeline. The offloader owns a share of them until disabled.
struct enable_weights {
  std::shared_ptr<const bare_weights> weights;
  causal_stamp stamp;
};

struct enabled {
  bool placed = false;              ///< False: there was nothing to do, and nothing was touched.
  std::shared_ptr<block_gate> gate; ///< Null if nothing was placed. For one model thread.
  causal_stamp stamp;
};

struct disable_backend {
  causal_stamp stamp;
};

struct query_offload {};

/// Offloads one pipeline at a time: what a scheduler talks to.
///
/// A message that comes while an enable, a disable or a request transition is being carried out is
/// refused with `busy`, except `query_offload`.
using offloader_actor = actor_interface<
    // Answers when the first forward may run. Whatever can be rejected is rejected before anything
    // is touched. Any failure leaves ordinary tensors with exact values and no hooks. Fails with
    // `already_enabled`, and after a failure of the runtime with its first cause.
    caf::result<enabled>(enable_pipeline),
    // As above, without tensors and hooks.
    caf::result<enabled>(enable_weights),
    // Answers when the tensors are ordinary again and the device memory is given back. Fails with
    // `not_enabled`, or `busy` during a request. Fails with `incomplete` if a clean-up step failed:
    // then everything else is kept and the disable may be repeated.
    caf::result<answered>(disable_backend),
    // Answers when the first blocks of the request are on their way. Fails with `not_enabled`, with
    // `busy` during a request, or with the first cause after a failure of the runtime.
    caf::result<answered>(begin_request),
    // Answers when every slot is free and every copy of the request is enqueued. Fails with
    // `not_enabled`, outside a request, or as above, also if the last copies failed; the request is
    // over in every case but a block in use (`busy`).
    caf::result<answered>(end_request),
    // Answers when the prefetcher knows. Fails as `begin_request`, and with `not_found`.
    caf::result<answered>(announce_blocks),
    // Never fails, and answers during transitions too.
    caf::result<offload_state>(query_offload),
    // As every child. `release_child` disables first, and waits for blocks in use.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::enable_pipeline)
FERRY_LOCAL_MESSAGE(ferry::enable_weights)
FERRY_LOCAL_MESSAGE(ferry::enabled)
FERRY_LOCAL_MESSAGE(ferry::disable_backend)
FERRY_LOCAL_MESSAGE(ferry::query_offload)
FERRY_LOCAL_MESSAGE(ferry::offload_state)
