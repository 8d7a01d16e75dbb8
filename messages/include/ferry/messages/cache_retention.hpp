// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>

#include <cstdint>

namespace ferry {

/// A group has come to the device.
struct group_staged {
  std::uint64_t bytes_now = 0; ///< Of all groups that are there now.
};

/// Groups have left the device, to make room for another or with the request.
struct group_left {
  std::uint64_t bytes_now = 0; ///< As above.
};

/// The backend is closed, and its groups are gone. What was learned from them is forgotten.
struct groups_closed {};

/// Gives the device back what the allocator holds for later, whatever the bounds say.
struct release_cache {};

struct query_cache {};

struct cache_state {
  std::uint64_t releases = 0;     ///< Since the actor was started.
  std::uint64_t failures = 0;     ///< Of them, those that the allocator failed.
  std::uint64_t staged_bytes = 0; ///< Of the groups on the device now.
};

/// Decides when the allocator of a model's activations gives back what it keeps: memory that one
/// component has freed must not stand in the way of the next. May block: releasing waits for the
/// device. Nobody depends on it, so that it is started again when it ends.
using cache_retention_actor =
    actor_interface<caf::result<void>(group_staged),
                    // Releases if a bound is exceeded. A failure of the allocator is logged and
                    // counted.
                    caf::result<void>(group_left),
                    // As `group_left`, for the last time.
                    caf::result<void>(groups_closed),
                    // Answers when the memory is released. Fails with the allocator's failure.
                    caf::result<void>(release_cache),
                    // Never fails.
                    caf::result<cache_state>(query_cache),
                    // As every child.
                    caf::result<void>(start_child), caf::result<void>(drain_child),
                    caf::result<answered>(release_child)>;

/// From now on the actor that gets this talks to that one.
struct use_cache_retention {
  cache_retention_actor whom;
};

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::group_staged)
FERRY_LOCAL_MESSAGE(ferry::group_left)
FERRY_LOCAL_MESSAGE(ferry::groups_closed)
FERRY_LOCAL_MESSAGE(ferry::release_cache)
FERRY_LOCAL_MESSAGE(ferry::query_cache)
FERRY_LOCAL_MESSAGE(ferry::cache_state)
FERRY_LOCAL_MESSAGE(ferry::use_cache_retention)
