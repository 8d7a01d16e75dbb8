// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/block_prefetcher.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/block_gate.hpp>

#include "streaming.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace ferry {

/// The model thread's way in: finds its block on the ticket board, makes compute wait for it, and
/// tells the prefetcher when it is through.
class block_port final : public block_gate {
public:
  /// `deadline` is how long `acquire` waits for a copy to be submitted.
  block_port(std::shared_ptr<streaming> through, block_prefetcher_actor prefetcher,
             supervisor_actor supervisor, std::chrono::milliseconds deadline);

  /// @throws also `slot_conflict` if the block is held already or every slot is
  [[nodiscard]] mutable_bytes acquire(block_id block) override;
  void again(block_id block) override;
  void release(block_id block) noexcept override;
  void mark(const char* what) override;

  /// Makes `acquire` wait so much longer. @pre nobody has acquired a block
  void be_patient(std::chrono::milliseconds longer) noexcept { deadline_ += longer; }

  /// Lets go of the actors, which a gate may outlive. @pre the board has failed and was left
  void close() noexcept;

private:
  [[nodiscard]] ticket_board::ticket find(block_id block);
  void demand(block_id block);
  void check_ranks() const;
  [[nodiscard]] mutable_bytes order(block_id block, const ticket_board::ticket& ticket,
                                    stream_id on);
  void announce(block_id block, const ticket_board::ticket& ticket, stream_id on);
  void go_on(block_id block, const ticket_board::ticket& ticket);
  void finish(block_id block, const ticket_board::ticket& ticket);
  void fail(failure reason, block_id block);

  std::shared_ptr<streaming> through_;
  block_prefetcher_actor prefetcher_;
  supervisor_actor supervisor_;
  std::chrono::milliseconds deadline_;
  std::uint64_t oldest_ = 0; ///< Generations below are retired.
};

} // namespace ferry
