// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/communicator.hpp>
#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace ferry {

struct nccl_communicator_options {
  std::string name = "gathers"; ///< Tells several communicators of the same ranks apart.
  nanoseconds patience;         ///< For other ranks in a collective.
  nanoseconds to_join{std::chrono::seconds{60}}; ///< For them to join, their first gather included.
};

/// Joins ranks on a GPU each, of one or more machines, through NCCL, as the rank that `meeting`
/// has. The communicator is a new one, of Ferry's own. The NCCL library is loaded by the first call
/// unless libtorch has, and stays.
///
/// - *No wait is endless.* NCCL is told not to block, and a thread of the communicator's own
///   watches each collective: whether all ranks come to the same one in time, whether their
///   processes live, and NCCL's asynchronous error. Whatever it finds fails the group, and ends
///   what NCCL is doing. `all_gather` returns once NCCL has enqueued it, which may be when all
///   ranks have come: wherever it connects them anew for a gather of another size.
/// - *Failure* is as of `join_process_communicator` among the ranks of one machine. Between
///   machines the first cause travels through `meeting`, which fails with the group and is kept as
///   long as the communicator; there a rank that is missing is not named, and two machines that
///   fail at once may each keep a cause of their own.
/// - *End.* What is enqueued when an end goes still takes part. Its device ends that when it goes.
/// - A process that was forked can use no end of its parent's.
///
/// Leaves the collectives of other communicators alone: who uses several on one GPU orders them.
/// @return as of `rendezvous::meet`; `unsupported`, on all ranks with the same words, if the
///         versions of NCCL differ, two ranks have one GPU, NCCL cannot be loaded, or the
///         environment makes it block; `deadline_exceeded` if NCCL does not connect the ranks in
///         time; what NCCL says
[[nodiscard]] result<std::unique_ptr<communicator>>
open_nccl_communicator(cuda_device& device, std::shared_ptr<rendezvous> meeting,
                       const nccl_communicator_options& options);

/// Returns the version of the NCCL library, such as `2.28.9`. Loads it.
/// @return `unsupported` with the reason if there is none that will do
[[nodiscard]] result<std::string> nccl_version();

} // namespace ferry
