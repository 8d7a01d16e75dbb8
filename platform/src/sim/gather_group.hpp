// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"
#include "ferry/platform/error.hpp"
#include "sim/clock.hpp"
#include "sim/operation.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {
class sim_machine;
}

namespace ferry::sim {

class rank_group;

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
  std::weak_ptr<rank_group> owner;

  std::vector<std::byte> gathered;
  bool taken = false; ///< `gathered` holds the shards.

  std::size_t ready_members = 0; ///< During one evaluation of the schedule.
  nanoseconds ready = nanoseconds::zero();
};

/// What the ends of one communicator share, guarded by the machine's lock.
class rank_group : public std::enable_shared_from_this<rank_group> {
public:
  struct rank_state {
    std::uint64_t next = 1; ///< The number of its next collective.
    bool left = false;      ///< Its end is gone.
    bool absent = false;    ///< A fault keeps it from arriving anywhere.
  };

  rank_group(std::shared_ptr<sim_machine> joined, std::size_t size, nanoseconds patience_of_all);

  /// Ends every collective that somebody has not joined. The first cause is kept.
  void fail(const failure& cause);

  /// As above, for the ranks that have not joined `collective`.
  /// @throws device_error `deadline_exceeded`
  [[noreturn]] void expire(const gather_group& collective);

  /// Gives up what the rank has not joined and somebody has.
  void leave(std::size_t rank);

  /// Returns the collective with that number, which may be new.
  [[nodiscard]] std::shared_ptr<gather_group> join(std::uint64_t number);
  void complete(gather_group& collective);

  const std::shared_ptr<sim_machine> machine;
  const nanoseconds patience;
  std::vector<rank_state> ranks;
  std::optional<failure> failed;

private:
  std::map<std::uint64_t, std::shared_ptr<gather_group>> open_;
};

} // namespace ferry::sim
