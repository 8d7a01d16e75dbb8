// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/supervisor.hpp>

#include "support/actor_world.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ferry::test {

/// What fakes were told, in the order in which they heard it.
using message_log = std::shared_ptr<std::vector<std::string>>;

[[nodiscard]] inline message_log make_message_log() {
  return std::make_shared<std::vector<std::string>>();
}

/// A supervisor that only remembers the failures reported to it.
class fake_supervisor final : public supervisor_actor::base {
public:
  using reports = std::shared_ptr<std::vector<child_failed>>;

  fake_supervisor(caf::actor_config& config, reports heard)
      : supervisor_actor::base(config), heard_(std::move(heard)) {}

  behavior_type make_behavior() override {
    return {
        [](const start_children&) -> caf::result<void> { return caf::unit; },
        [](const stop_children&) -> caf::result<stopped> { return stopped{}; },
        [this](const child_failed& m) -> caf::result<void> {
          heard_->push_back(m);
          return caf::unit;
        },
        [](const query_children&) -> caf::result<children_state> { return children_state{}; },
    };
  }

private:
  reports heard_;
};

} // namespace ferry::test
