// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/nccl_communicator.hpp"
#include "nccl/nccl_api.hpp"
#include "process/process_identity.hpp"

#include <memory>

namespace ferry::nccl {

/// As `open_nccl_communicator`, through a table of calls, as the process `self`.
/// @pre `library` outlives the device
[[nodiscard]] result<std::unique_ptr<communicator>>
join(const api& library, cuda_device& device, std::shared_ptr<rendezvous> meeting,
     const nccl_communicator_options& options, const process_identity& self = this_process());

} // namespace ferry::nccl
