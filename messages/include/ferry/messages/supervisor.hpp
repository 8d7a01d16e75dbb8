// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ferry {

/// Makes what the child owns on the device, on the child's own thread.
struct start_child {
  std::uint64_t generation = 0; ///< Comes back in `child_failed`.
};

/// Refuses new work from now on.
struct drain_child {
  failure cause;       ///< What refused work is answered with.
  bool failed = false; ///< The cause is a failure, not an orderly stop.
};

/// Gives back everything the child owns.
struct release_child {
  std::chrono::nanoseconds deadline{0}; ///< From now; the child answers sooner, late or not.
};

/// What every child of the supervisor understands besides its own protocol.
using child_actor = actor_interface<
    // Answers when the child can be used. Fails with the device's failure and has then kept
    // nothing.
    caf::result<void>(start_child),
    // Answers when the message in hand is done. Never fails; the first cause given stays.
    caf::result<void>(drain_child),
    // Answers when everything is given back, then the child quits. A child that was never started
    // has nothing to give back. Fails with `deadline_exceeded`, naming whom it waits for, keeps
    // what it has, and may be asked again.
    caf::result<answered>(release_child)>;

/// Starts every child, in the declared order.
struct start_children {};

/// Stops every child: all are drained, then all are released, from the last started to the first.
struct stop_children {
  std::chrono::nanoseconds deadline{0}; ///< For all of it.
};

struct stopped {
  std::vector<std::string> late;    ///< One sentence for each child that was not done in time.
  std::vector<causal_stamp> stamps; ///< What those that were done, or ended, knew at their end.
};

/// A child met a failure that it cannot repair.
struct child_failed {
  std::string name;
  std::uint64_t generation = 0;
  failure reason;
  causal_stamp stamp = {}; ///< What it knew at its end, if that is how it failed.
};

/// What has become of the children.
struct query_children {};

struct children_state {
  std::vector<std::string> running; ///< In the order in which they were started.
  std::uint64_t generation = 0;     ///< Of the latest start.
  bool failed = false;
  failure first_cause; ///< Meaningful if `failed`.
};

/// Starts, watches and stops the children of one runtime.
using supervisor_actor = actor_interface<
    // Answers when every child is started. If one fails, those before it are stopped in reverse
    // order, the answer is the first failure, and the children may be started again. Fails with
    // `already_enabled` while children run.
    caf::result<void>(start_children),
    // Fails with `busy` during a start or another stop. Else answers within the deadline: who was
    // not done is named, and may be asked again by a second stop. Without children: at once.
    caf::result<stopped>(stop_children),
    // Never fails. The first failure drains every child, from the last started to the first; later
    // ones, and those of an earlier generation, change nothing.
    caf::result<void>(child_failed),
    // Never fails, answers at once.
    caf::result<children_state>(query_children)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::start_child)
FERRY_LOCAL_MESSAGE(ferry::drain_child)
FERRY_LOCAL_MESSAGE(ferry::release_child)
FERRY_LOCAL_MESSAGE(ferry::start_children)
FERRY_LOCAL_MESSAGE(ferry::stop_children)
FERRY_LOCAL_MESSAGE(ferry::stopped)
FERRY_LOCAL_MESSAGE(ferry::child_failed)
FERRY_LOCAL_MESSAGE(ferry::query_children)
FERRY_LOCAL_MESSAGE(ferry::children_state)
