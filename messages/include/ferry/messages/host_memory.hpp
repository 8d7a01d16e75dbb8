// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/host_budget.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// Asks for pinned memory before any of it is taken.
struct lease_host_memory {
  std::string who; ///< As reports name it.
  std::vector<pin_candidate> stores;
  pin_wish wish;
  std::uint64_t pages = 0; ///< Bytes of pages of files, to be registered with a device.
};

/// The stores of a lease are filled, its pages are registered, and they really take so much, at
/// most what was granted.
struct settle_lease {
  lease_id id{};
  std::uint64_t pinned = 0;
  std::uint64_t registered = 0;
};

/// Whatever the sender has leased is gone, also what it was never told of because the answer was
/// lost.
struct give_back_leases {};

struct query_host_memory {};

struct host_memory_state {
  std::uint64_t pinned = 0;             ///< By all leases.
  std::uint64_t registered = 0;         ///< Of pages of files, by all leases.
  std::optional<std::uint64_t> ceiling; ///< Of the runtime; nothing: what the host allows.
  host_limits host;                     ///< As the system tells it now.
  std::vector<lease_entry> leases;
};

/// Owns the budget of pinned memory and registered pages of one runtime. Every message is answered
/// at once.
using host_memory_actor = actor_interface<
    // Answers with the stores that may be pinned, and whether the pages may be registered. Fails
    // with `out_of_host_memory` as `plan_pinning`, and with the cause once drained. The lease ends
    // with its sender at the latest.
    caf::result<pin_lease>(lease_host_memory),
    // Fails with `stale_handle` for a lease that is not held.
    caf::result<void>(settle_lease),
    // Never fails.
    caf::result<void>(give_back_leases),
    // Never fails.
    caf::result<host_memory_state>(query_host_memory),
    // As every child. What is still leased then belongs to nobody.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::lease_host_memory)
FERRY_LOCAL_MESSAGE(ferry::pin_lease)
FERRY_LOCAL_MESSAGE(ferry::settle_lease)
FERRY_LOCAL_MESSAGE(ferry::give_back_leases)
FERRY_LOCAL_MESSAGE(ferry::query_host_memory)
FERRY_LOCAL_MESSAGE(ferry::host_memory_state)
