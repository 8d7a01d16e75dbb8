// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/component_stager.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/group_gate.hpp>

#include "staging.hpp"
#include "streaming.hpp"

#include <chrono>
#include <memory>

namespace ferry {

/// The model thread's way to groups: holds them on the board while they are used, and asks the
/// component stager for what is not there.
class group_port final : public group_gate {
public:
  /// `deadline` is how long `enter` waits for a group to be brought in.
  group_port(std::shared_ptr<streaming> through, std::shared_ptr<staging> groups,
             component_stager_actor stager, supervisor_actor supervisor,
             std::chrono::milliseconds deadline);

  void enter(group_id group) override;
  void leave(group_id group) noexcept override;

  /// Lets go of the actors, which a gate may outlive. @pre the board has failed and was left
  void close() noexcept;

private:
  [[nodiscard]] group_board::holding find(group_id group);
  void check_conflicts(group_id group) const;
  void order(group_id group, const group_board::holding& held, stream_id on);
  void fail(failure reason, group_id group);

  std::shared_ptr<streaming> through_;
  std::shared_ptr<staging> groups_;
  component_stager_actor stager_;
  supervisor_actor supervisor_;
  std::chrono::milliseconds deadline_;
};

} // namespace ferry
