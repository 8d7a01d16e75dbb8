// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/component_stager.hpp>
#include <ferry/messages/supervisor.hpp>

#include "device_worker.hpp"
#include "staging.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace ferry {

/// See `component_stager_actor`.
class component_stager final : public device_worker<component_stager_actor::base, staging> {
public:
  component_stager(caf::actor_config& config, std::shared_ptr<device> owner);

  behavior_type make_behavior() override;
  const char* name() const override { return "component_stager"; }
  void on_exit() override;

private:
  void start();
  void drain(const drain_child& message);

  answered open(const open_groups& message);
  answered drain(const drain_groups& message);
  answered close(const close_groups& message);
  void demand(const demand_group& message);
  answered stage_in(const stage_group_in& message);
  answered stage_out(const stage_group_out& message);
  answered begin(const begin_request& message);
  answered end(const end_request& message);

  void use(const use_cache_retention& message);

  /// Returns the size of all groups on the device.
  [[nodiscard]] std::uint64_t staged_bytes() const;
  template <class Message>
  void tell_retention(Message message);

  void bring_in(group_id group);
  void send_away(group_id group);
  [[nodiscard]] result<void> make_leave(const std::vector<group_id>& groups);
  [[nodiscard]] failure in_use(group_id group) const;

  cache_retention_actor retention_; ///< Null: nobody keeps anything.
  group_id comes_first_{};          ///< In a request, as far as is known.
  bool first_is_known_ = false;     ///< Of the present request.
};

} // namespace ferry
