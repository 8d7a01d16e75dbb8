// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/cache_retention.hpp>
#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/wave_terms.hpp>
#include <ferry/offload/weight_update.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry {

class block_gate;
class group_gate;
class host_lease;
class loader_transforms;
class pipeline;
struct bare_weights;

/// Offloads a pipeline. The offloader owns a share of it until it is disabled, and is the only one
/// to touch its tensors while it answers.
struct enable_pipeline {
  std::shared_ptr<pipeline> subject;
  offload_config config;
  causal_stamp stamp;
  /// What the weights of the pipeline lie in, if they are not its own. Ends with the backend, or
  /// with an enable that fails.
  std::shared_ptr<host_lease> lease = nullptr;
  /// What is to be done to tensors before the model can compute with them. Empty once the offloader
  /// has taken that on, whether or not the enable succeeds.
  std::shared_ptr<loader_transforms> transforms = nullptr;
};

/// Streams bytes that belong to no pipeline. The offloader owns a share of them until disabled.
struct enable_weights {
  std::shared_ptr<const bare_weights> weights;
  causal_stamp stamp;
};

struct enabled {
  bool placed = false;              ///< False: there was nothing to do, and nothing was touched.
  std::shared_ptr<block_gate> gate; ///< Null if nothing was placed. For one model thread.
  std::shared_ptr<group_gate> groups = nullptr;     ///< As `gate`.
  std::map<std::string, group_id> group_paths = {}; ///< Of the components that come and go.
  causal_stamp stamp;
};

/// Brings a component to the device ahead of its use, or makes it leave: its group, the resident
/// layers of a denoiser, or, for a component that stages itself, by its own methods.
struct stage_component {
  std::string path;
  bool in = true;
  causal_stamp stamp;
};

/// Replaces weights in their masters, and wherever they are on the device.
struct update_weights {
  std::shared_ptr<const weight_update> update;
  causal_stamp stamp;
};

struct weights_updated {
  weight_version version{};
  causal_stamp stamp;
};

/// Asks for the weights of a component as its masters have them.
struct read_component {
  std::string component;
  std::vector<std::string> names; ///< Dotted, below the component; none: all of them.
  causal_stamp stamp;
};

struct component_read {
  weight_snapshot snapshot;
  causal_stamp stamp;
};

/// Asks for a request's turn. Requests run one at a time, in the order asked for.
struct queue_request {
  request_id id{};                      ///< None that waits or runs has it.
  std::chrono::nanoseconds patience{0}; ///< Most time until its turn.
  causal_stamp stamp;
  wave_terms wave = {};
};

/// What the offloader reminds itself of when the patience of a request may have ended.
struct expire_requests {};

/// Ends the wait of a request, or its run at the next block.
struct cancel_request {
  request_id id{};
};

struct disable_backend {
  causal_stamp stamp;
};

struct query_offload {};

/// Offloads one pipeline at a time: what a scheduler talks to.
///
/// A message that comes while an enable, a disable or a request transition is being carried out is
/// refused with `busy`, except `cancel_request` and `query_offload`, and `queue_request` during a
/// request transition or a weight update.
using offloader_actor = actor_interface<
    // Answers when the first forward may run. Whatever can be rejected is rejected before anything
    // is touched. Where the device has no room, the cache retention is asked once to release what
    // the model's allocator keeps. Any failure leaves ordinary tensors with exact values and no
    // hooks. Fails with `already_enabled`, and after a failure of the runtime with its first cause.
    caf::result<enabled>(enable_pipeline),
    // As above, without tensors and hooks.
    caf::result<enabled>(enable_weights),
    // Answers when the tensors are ordinary again, the device memory is given back, and the lease
    // is closed; fails as that does, and is over all the same. Fails with `not_enabled`, or `busy`
    // during a request. Fails with `incomplete` if a clean-up step failed: then everything else is
    // kept and the disable may be repeated.
    caf::result<answered>(disable_backend),
    // Answers when the requests before it are over and its first blocks are on their way. Where
    // ranks gather blocks, every rank has to queue one, and a wave that `admit_wave` refuses begins
    // on none; a rank that does not come in time ends the group. Fails with `not_enabled`,
    // `invalid_argument` for an id that waits or runs, `deadline_exceeded`, `cancelled`, or the
    // first cause after a failure of the runtime.
    caf::result<answered>(queue_request),
    // Never fails. Requests whose patience has ended fail with `deadline_exceeded`.
    caf::result<void>(expire_requests),
    // Answers at once. A request that waits fails with `cancelled`. One that runs gets `cancelled`
    // from its next block or component, and is over when its owner ends it. Fails with `not_found`
    // for an id that neither waits nor runs, and with `unsupported` for one in a wave of ranks that
    // did not say which blocks it runs: the others could not go on.
    caf::result<void>(cancel_request),
    // Answers when every slot is free and every copy of the request is enqueued. Fails with
    // `not_enabled`, outside a request, or as above, also if the last copies failed; the request is
    // over in every case but a block in use (`busy`).
    caf::result<answered>(end_request),
    // Answers when the prefetcher knows. Fails with `not_enabled`, `busy`, or as above, and with
    // `not_found`.
    caf::result<answered>(announce_blocks),
    // Answers when the copies are enqueued, or the memory is free for others. Staging what is there
    // already, or gone, changes nothing. Fails with `not_found` for a path that is no component,
    // `unsupported` for one that stays on the device or is streamed, `busy` while a component
    // that has to leave is in use; and as `announce_blocks` does.
    caf::result<answered>(stage_component),
    // Answers when masters and residents have the new contents, whatever was fetched ahead is gone,
    // and the first blocks are on their way again; groups have left. All of it or nothing: after
    // any failure the old contents are everywhere. Whatever is wrong with the update is found
    // before anything changes: `not_found`, `invalid_argument`, `unsupported`. Fails with `busy`
    // during a request or while a block or component is in use, with the device's failure, and as
    // `announce_blocks` does. If the residents then cannot be loaded as they were either, the
    // runtime has failed.
    caf::result<weights_updated>(update_weights),
    // Answers at once. Fails as an update does for its names, and with `busy` when it would.
    caf::result<component_read>(read_component),
    // From now on that actor is asked where the device has no room. Never fails.
    caf::result<void>(use_cache_retention),
    // Never fails, and answers during transitions too.
    caf::result<offload_state>(query_offload),
    // As every child. `release_child` disables first, and waits for blocks in use.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::enable_pipeline)
FERRY_LOCAL_MESSAGE(ferry::enable_weights)
FERRY_LOCAL_MESSAGE(ferry::enabled)
FERRY_LOCAL_MESSAGE(ferry::stage_component)
FERRY_LOCAL_MESSAGE(ferry::queue_request)
FERRY_LOCAL_MESSAGE(ferry::expire_requests)
FERRY_LOCAL_MESSAGE(ferry::cancel_request)
FERRY_LOCAL_MESSAGE(ferry::update_weights)
FERRY_LOCAL_MESSAGE(ferry::weights_updated)
FERRY_LOCAL_MESSAGE(ferry::read_component)
FERRY_LOCAL_MESSAGE(ferry::component_read)
FERRY_LOCAL_MESSAGE(ferry::disable_backend)
FERRY_LOCAL_MESSAGE(ferry::query_offload)
FERRY_LOCAL_MESSAGE(ferry::offload_state)
