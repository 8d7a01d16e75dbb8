// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/block_prefetcher.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/ring.hpp>
#include <ferry/platform/host_thread.hpp>

#include "streaming.hpp"

#include <memory>
#include <optional>

namespace ferry {

/// See `block_prefetcher_actor`. Blocks that run outside a request run in an implicit one, which
/// begins with the backend or the block and gives way to the next explicit request.
class block_prefetcher final : public block_prefetcher_actor::base {
public:
  block_prefetcher(caf::actor_config& config, std::shared_ptr<device> owner,
                   copy_stream_actor copies, supervisor_actor supervisor);

  behavior_type make_behavior() override;
  const char* name() const override { return "block_prefetcher"; }
  void on_exit() override;

private:
  void start(const start_child& message);
  void drain(const drain_child& message);
  answered release();

  answered open(const open_ring& message);
  answered close(const close_ring& message);
  answered begin(const begin_request& message);
  answered end(const end_request& message);
  answered empty(const empty_ring& message);
  answered refill(const refill_ring& message);
  answered announce(const announce_blocks& message);
  void demand(const demand_block& message);
  void released(const block_released& message);
  [[nodiscard]] ring_counts count() const;

  void check_open() const;
  void check_nothing_in_use() const;
  void begin_implicitly();
  void end_now();
  void submit(ring::commands commands);
  void fail(failure reason);
  [[nodiscard]] bool idle() const noexcept { return ring_ == nullptr || refusal_.has_value(); }

  std::shared_ptr<device> owner_;
  copy_stream_actor copies_;
  supervisor_actor supervisor_;
  std::uint64_t generation_ = 0;
  std::optional<host_thread> me_;
  std::optional<failure> refusal_; ///< Set once drained.
  std::shared_ptr<streaming> through_;
  std::unique_ptr<ring> ring_;
  std::uint64_t next_gather_ = 0; ///< Sequence of the next piece that ranks gather: program order.
  bool explicit_request_ = false;
  bool used_implicitly_ = false; ///< A block ran in the implicit request.
};

} // namespace ferry
