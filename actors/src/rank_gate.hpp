// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/rank_gate.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <cstdint>
#include <memory>

namespace ferry {

/// See `rank_gate_actor`. May block: while it waits for other ranks.
class rank_gate final : public rank_gate_actor::base {
public:
  rank_gate(caf::actor_config& config, std::shared_ptr<rendezvous> ranks, nanoseconds patience);

  behavior_type make_behavior() override;
  const char* name() const override { return "rank_gate"; }

private:
  void vote(const vote_to_start& message);
  void join(const join_wave& message);

  std::shared_ptr<rendezvous> ranks_;
  nanoseconds patience_;
  std::uint64_t votes_ = 0;
  std::uint64_t waves_ = 0;
};

} // namespace ferry
