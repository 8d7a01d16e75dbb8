// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/communicator.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ferry {

// Communicators of host devices. The thread of the stream that a collective is enqueued on does the
// exchange, through shared memory of 2 MiB a rank. Collectives of one communicator may be on
// several streams and run in the order of the calls.
//
// - A rank that waits `patience` for others fails the group with `deadline_exceeded`, naming those
//   that are missing and the collective.
// - Ranks whose collectives differ at the same place fail with `invalid_argument`, which names
// both;
//   rank 0 counts as right. That shows when the collective runs, not at the call.
// - Destroying a stream runs what is queued on it: abort first if a collective may wait for others.

/// Connects devices of this process, rank 0 first: ranks that are threads. @pre at least one device
[[nodiscard]] std::vector<std::unique_ptr<communicator>>
make_host_communicators(std::span<host_device* const> ranks, nanoseconds patience);

/// Joins ranks that are processes of one machine, or threads of them, as the rank that `meeting`
/// has; it is not needed afterwards. `name` tells several communicators of the same ranks apart.
/// Waits up to `to_join` for the others to join, and up to `patience` in each collective.
///
/// The end of a process is noticed by its handle within a fraction of a second, at any instruction.
/// The memory they share has no name, so that nothing is left when the last of them ends.
/// @return as of `rendezvous::meet`; `unsupported` if a rank is on another machine or its memory
///         may not be shared
[[nodiscard]] result<std::unique_ptr<communicator>>
join_process_communicator(host_device& device, rendezvous& meeting, std::string_view name,
                          nanoseconds patience, nanoseconds to_join = std::chrono::seconds{60});

} // namespace ferry
