// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/cache_retention.hpp>
#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/ids.hpp>

#include <memory>

namespace ferry {

class staging;

/// Takes on the groups of an enabled backend, all away. The stager shares `through` with the other
/// actors of the backend until `close_groups`.
struct open_groups {
  std::shared_ptr<staging> through;
  causal_stamp stamp;
};

/// Records everything enqueued so far, for whoever has to wait until it has run.
struct drain_groups {
  causal_stamp stamp;
};

/// Lets go of the backend.
struct close_groups {
  causal_stamp stamp;
};

/// The model thread needs a group that is not on the device.
struct demand_group {
  group_id group{};
  causal_stamp stamp;
  sent_time sent = {};
};

struct stage_group_in {
  group_id group{};
  causal_stamp stamp;
};

struct stage_group_out {
  group_id group{};
  causal_stamp stamp;
};

/// Owns the staging stream of one device: brings groups (whole components, the first layers of a
/// denoiser) to the device and makes those leave that they exclude. It may block: a copy from
/// memory that is not pinned holds up whoever enqueues it.
using component_stager_actor = actor_interface<
    // Answers at once. Fails with `busy` if a backend is open, or the cause of a drain.
    caf::result<answered>(open_groups),
    // Answers once the backend's event is recorded behind everything enqueued so far. Works on a
    // drained stager too. Fails with `not_enabled`, or the device's failure.
    caf::result<answered>(drain_groups),
    // Never fails; without an open backend nothing happens.
    caf::result<answered>(close_groups),
    // Tells the board: the group is here, or why it does not come, which is `busy` if one
    // that it excludes is held, or the device's failure. The weights are as they were then.
    caf::result<void>(demand_group),
    // From now on that actor is told of groups that come and go. Never fails.
    caf::result<void>(use_cache_retention),
    // Answers once the copies are enqueued; fails as a demand does, or with `not_enabled`.
    caf::result<answered>(stage_group_in),
    // Answers once the memory is free for others. Fails with `busy` while the group is held.
    caf::result<answered>(stage_group_out),
    // Brings the group that comes first in a request on its way: the one that the last request used
    // first, else the first of the plan. Fails as `stage_group_in`.
    caf::result<answered>(begin_request),
    // Makes every group leave. Fails with `busy`, naming it, while one is held; the others have
    // left.
    caf::result<answered>(end_request),
    // As every child.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::open_groups)
FERRY_LOCAL_MESSAGE(ferry::drain_groups)
FERRY_LOCAL_MESSAGE(ferry::close_groups)
FERRY_LOCAL_MESSAGE(ferry::demand_group)
FERRY_LOCAL_MESSAGE(ferry::stage_group_in)
FERRY_LOCAL_MESSAGE(ferry::stage_group_out)
