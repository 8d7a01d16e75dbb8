// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "sim/clock.hpp"
#include "sim/operation.hpp"

#include <functional>
#include <map>
#include <vector>

namespace ferry::sim {

/// A resource that carries one transfer at a time.
class link {
public:
  /// Takes the first gap of `duration` that begins at `ready` or later. Returns its begin.
  [[nodiscard]] nanoseconds reserve(nanoseconds ready, nanoseconds duration);

private:
  std::map<nanoseconds, nanoseconds> busy_; ///< Begin to end; neighbours are merged.
  nanoseconds closed_until_ = nanoseconds::zero();
};

/// Gives operations their virtual times, when somebody asks for them.
///
/// Times are set in the order of the virtual clock and not of the calls, so that transfers which
/// meet on a link queue in the order in which they arrive there. Somebody who asks sees only what
/// he knows to have been enqueued: what other threads have enqueued meanwhile, by accident of real
/// scheduling, does not count. Not thread-safe.
class schedule {
public:
  /// @param on_timed is told of every operation whose times have been set, in order
  explicit schedule(std::function<void(const operation&)> on_timed);
  schedule(const schedule&) = delete;
  schedule& operator=(const schedule&) = delete;
  ~schedule();

  void add(const operation_ref& added);

  /// Sets the times of everything that `known` knows to be enqueued and of all that it waits for.
  void evaluate(const vector_clock& known);
  void evaluate_all();

private:
  void select_predecessors();
  void run_selected();
  void set_times(operation& chosen, nanoseconds ready);

  std::function<void(const operation&)> on_timed_;
  std::vector<operation_ref> untimed_;
};

} // namespace ferry::sim
