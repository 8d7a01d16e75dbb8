// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/host_packer.hpp>
#include <ferry/messages/supervisor.hpp>

#include "device_worker.hpp"
#include "streaming.hpp"

#include <memory>

namespace ferry {

/// See `host_packer_actor`.
class host_packer final : public device_worker<host_packer_actor::base, streaming> {
public:
  host_packer(caf::actor_config& config, std::shared_ptr<device> owner);

  behavior_type make_behavior() override;
  const char* name() const override { return "host_packer"; }
  void on_exit() override;

private:
  void start();
  void drain(const drain_child& message);

  answered open(const open_packing& message);
  answered pack(const pack_piece& message);
  answered drain(const drain_packing& message);
  answered close(const close_packing& message);
};

} // namespace ferry
