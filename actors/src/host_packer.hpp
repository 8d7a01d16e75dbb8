// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/host_packer.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/platform/host_thread.hpp>

#include "streaming.hpp"

#include <memory>
#include <optional>

namespace ferry {

/// See `host_packer_actor`.
class host_packer final : public host_packer_actor::base {
public:
  host_packer(caf::actor_config& config, std::shared_ptr<device> owner);

  behavior_type make_behavior() override;
  const char* name() const override { return "host_packer"; }
  void on_exit() override;

private:
  void start();
  void drain(const drain_child& message);
  answered release();

  answered open(const open_packing& message);
  answered pack(const pack_piece& message);
  answered drain(const drain_packing& message);
  answered close(const close_packing& message);

  void check_open() const;
  /// Keeps the backend while it is held. If it was taken away, lets go of it and holds nothing.
  [[nodiscard]] work_permit::use_lock keep();

  std::shared_ptr<device> owner_;
  std::optional<host_thread> me_;
  std::optional<failure> refusal_;      ///< Set once drained.
  std::shared_ptr<work_permit> permit_; ///< For `through_`.
  std::shared_ptr<streaming> through_;
};

} // namespace ferry
