// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/spawn.hpp>
#include <ferry/messages/host_memory.hpp>
#include <ferry/offload/host_budget.hpp>

#include <cstdint>
#include <optional>
#include <set>

namespace ferry {

/// See `host_memory_actor`.
class host_memory final : public host_memory_actor::base {
public:
  host_memory(caf::actor_config& config, host_memory_options options);

  behavior_type make_behavior() override;
  const char* name() const override { return "host_memory"; }

private:
  pin_lease lease(const lease_host_memory& message);
  void settle(const settle_lease& message);
  void take_back(std::uint64_t holder);
  [[nodiscard]] host_memory_state describe() const;

  host_memory_options options_;
  host_budget budget_;
  watch_list<host_memory_actor::base> watched_;
  std::set<std::uint64_t> holders_; ///< Those that are watched.
  std::optional<failure> refusal_;  ///< Set once drained.
};

} // namespace ferry
