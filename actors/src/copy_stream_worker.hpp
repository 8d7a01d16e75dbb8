// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/stream.hpp>

#include "streaming.hpp"

#include <memory>
#include <optional>

namespace ferry {

/// See `copy_stream_actor`.
class copy_stream_worker final : public copy_stream_actor::base {
public:
  copy_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                     supervisor_actor supervisor);

  behavior_type make_behavior() override;
  const char* name() const override { return "copy_stream_worker"; }
  void on_exit() override;

private:
  struct lane {
    explicit lane(device& owner) : me(owner, "copy_stream_worker"), copies(owner, "copy") {}

    host_thread me;
    stream copies;
  };

  void start(const start_child& message);
  void drain(const drain_child& message);
  answered release();

  answered open(const open_copies& message);
  answered reload(const reload_residents& message);
  void fetch(const fetch_block& message);
  void discard(const discard_slot& message);
  answered drain(const drain_copies& message);
  answered close(const close_copies& message);

  void load_residents();
  void copy_all(streaming::sources from, mutable_bytes target, operation_tag tag);
  void fail(failure reason);
  [[nodiscard]] bool idle() const noexcept { return through_ == nullptr || refusal_.has_value(); }

  std::shared_ptr<device> owner_;
  supervisor_actor supervisor_;
  std::uint64_t generation_ = 0;
  std::optional<lane> lane_;
  std::optional<failure> refusal_; ///< Set once drained.
  std::shared_ptr<streaming> through_;
};

} // namespace ferry
