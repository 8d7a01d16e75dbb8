// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/communicator.hpp>
#include <ferry/platform/sim_device.hpp>

#include <memory>
#include <span>
#include <vector>

namespace ferry {

/// Connects devices of one machine, rank 0 first. Their clocks, real bytes and virtual times meet
/// in each collective: it starts when the last rank arrives and lasts what the options say.
///
/// - A rank whose collective differs from that of the others at the same place is told so by an
///   `invalid_argument` that names both, and the group fails.
/// - Whoever synchronizes with a collective that somebody has not joined waits `patience` of real
///   time; then the group fails, and the caller gets `deadline_exceeded` naming the missing ranks.
///   Zero: nobody else will come, as in a test that plays all ranks on one thread.
/// - `fault_effect::absence` and `fault_effect::death` make a rank fail in a collective.
///
/// @pre at least one device, all of the same machine and with equal options
[[nodiscard]] std::vector<std::unique_ptr<communicator>>
make_sim_communicators(std::span<sim_device* const> ranks, nanoseconds patience);

} // namespace ferry
