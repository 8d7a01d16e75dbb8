// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/spawn.hpp>
#include <ferry/messages/supervisor.hpp>

#include "terminator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// See `supervisor_actor`. A child that is not to be restarted takes the others down with it: none
/// can do its work alone, and none can be replaced while weights are in flight.
class supervisor final : public supervisor_actor::base {
public:
  supervisor(caf::actor_config& config, std::vector<start_step> steps,
             std::chrono::milliseconds start_deadline);

  behavior_type make_behavior() override;
  const char* name() const override { return "supervisor"; }
  void on_exit() override;

private:
  enum class phase : std::uint8_t { stopped, starting, running, stopping };

  caf::result<void> start();
  void start_next();
  void started(const result<void>& outcome);
  void abandon_start(failure cause);

  caf::result<stopped> stop(const stop_children& message);
  void report(const child_failed& message);
  void gone(const std::string& child, std::uint64_t generation, const caf::error& reason);
  void watch(const live_child& child);
  [[nodiscard]] bool may_restart(const start_step& step, std::uint64_t generation) const;
  void restart(const start_step& step);
  [[nodiscard]] children_state describe() const;

  std::vector<start_step> steps_;
  std::chrono::milliseconds start_deadline_;
  watch_list<supervisor_actor::base> watched_;
  terminator terminator_;
  phase phase_ = phase::stopped;
  std::uint64_t generation_ = 0;
  terminator::children children_; ///< The undo list: each is on it before it starts.
  std::optional<failure> first_cause_;
  std::vector<causal_stamp> ended_; ///< What those knew that ended before their time.
  int restarts_ = 0;                ///< Of this start.
  caf::typed_response_promise<void> starting_;
};

} // namespace ferry
