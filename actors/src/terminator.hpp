// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/supervisor.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ferry {

/// A child that was spawned, and the start it belongs to.
struct live_child {
  std::string name;
  child_actor handle;
  std::uint64_t generation = 0;
};

/// Stops lists of children on behalf of the supervisor. Nobody else does.
class terminator {
public:
  using children = std::vector<live_child>;

  explicit terminator(supervisor_actor::base* self) : self_(self) {}

  /// Drains one child after the other, from the last to the first, then calls `then`.
  void drain(children whom, drain_child message, std::chrono::nanoseconds deadline,
             std::function<void()> then);

  /// Releases one child after the other, from the last to the first, and stops at the first that is
  /// late: those before it may still be needed by it. Calls `then` with the children that are left
  /// and what there is to report.
  void release(children whom, std::chrono::steady_clock::time_point until,
               std::function<void(children, stopped)> then);

  /// Ends all of them at once, asking nobody.
  static void kill_all(const children& whom);

private:
  void release_next(children whom, std::chrono::steady_clock::time_point until, stopped so_far,
                    std::function<void(children, stopped)> then);

  supervisor_actor::base* self_;
};

} // namespace ferry
