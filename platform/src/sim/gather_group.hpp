// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"
#include "sim/clock.hpp"
#include "sim/operation.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferry::sim {

/// One collective: the operations of all ranks, as far as they have arrived.
struct gather_group {
  struct member {
    operation_ref op;     ///< Null until the rank has arrived.
    operation_ref before; ///< What precedes it on its stream.
  };

  [[nodiscard]] bool complete() const noexcept { return arrived == members.size(); }

  std::uint64_t number = 0; ///< Counts the collectives of the communicator from 1.
  std::vector<member> members;
  std::size_t arrived = 0;
  std::shared_ptr<late_clock> joined; ///< What is known once all have arrived.
  bool given_up = false;
  std::chrono::nanoseconds patience{0};

  std::vector<std::byte> gathered;
  bool taken = false; ///< `gathered` holds the shards.

  std::size_t ready_members = 0; ///< During one evaluation of the schedule.
  nanoseconds ready = nanoseconds::zero();
};

} // namespace ferry::sim
