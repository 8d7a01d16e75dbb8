// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/rendezvous.hpp"
#include "host/exchange.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace ferry::nccl {

/// What the ranks know of each other beside NCCL: the collective each has come to, who has left or
/// died, and the first failure. The ranks of one machine see all of it at once; between machines
/// only the failure travels. Thread-safe but for `arrive`, `all_arrived` and `relay`.
class peer_group {
public:
  /// @param between_machines null where all ranks are on one
  peer_group(std::shared_ptr<exchange> here, std::shared_ptr<rendezvous> between_machines);

  [[nodiscard]] int rank() const noexcept { return here_->rank(); }
  [[nodiscard]] int size() const noexcept { return here_->size(); }

  // See `exchange`.

  void plan(std::uint64_t number, std::uint64_t shard_bytes, operation_tag tag) noexcept {
    here_->plan(number, shard_bytes, tag);
  }
  void arrive() noexcept { here_->arrive(); }
  [[nodiscard]] bool all_arrived(std::uint64_t number,
                                 std::chrono::steady_clock::time_point deadline) {
    return here_->all_arrived(number, deadline);
  }
  void leave(std::uint64_t number) noexcept { here_->leave(number); }
  void fail(const failure& cause) noexcept { here_->fail(cause); }
  [[nodiscard]] std::optional<failure> failed() const;
  [[nodiscard]] std::optional<int> ended_rank() const noexcept { return here_->ended_rank(); }

  /// Tells other machines of a failure here, and the other way round. May wait for the network.
  void relay();

private:
  std::shared_ptr<exchange> here_;
  std::shared_ptr<rendezvous> between_machines_;
  std::chrono::steady_clock::time_point next_look_{};
};

} // namespace ferry::nccl
