// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/calls.hpp"
#include "ferry/platform/device.hpp"

namespace ferry::cuda {

/// Makes the calling thread act as `thread` on a device, which becomes current. Acting as itself
/// again, the thread has the device current that it had before. Returns whom it acted as.
host_thread_id act_as(const calls& on, host_thread_id thread) noexcept;

} // namespace ferry::cuda
