// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/comm_stream.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/platform/communicator.hpp>

#include "device_worker.hpp"
#include "streaming.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace ferry {

/// See `comm_stream_actor`.
class comm_stream_worker final : public device_worker<comm_stream_actor::base, streaming> {
public:
  comm_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                     std::shared_ptr<communicator> ranks, copy_stream_actor copies,
                     supervisor_actor supervisor);

  behavior_type make_behavior() override;
  const char* name() const override { return "comm_stream_worker"; }
  void on_exit() override;

private:
  void start(const start_child& message);
  void drain(const drain_child& message);

  answered open(const open_gathers& message);
  void gather(const gather_piece& message);
  answered drain(const drain_gathers& message);
  answered close(const close_gathers& message);

  void enqueue(const gather_piece& piece);
  void fail(failure reason);

  std::shared_ptr<communicator> ranks_;
  copy_stream_actor copies_;
  supervisor_actor supervisor_;
  std::uint64_t generation_ = 0;
  std::uint64_t next_ = 0;                      ///< The collective to enqueue next.
  std::map<std::uint64_t, gather_piece> early_; ///< Those that came before their turn.
};

} // namespace ferry
