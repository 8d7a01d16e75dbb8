// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/messages/block_prefetcher.hpp>
#include <ferry/messages/cache_retention.hpp>
#include <ferry/messages/comm_stream.hpp>
#include <ferry/messages/component_stager.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/host_memory.hpp>
#include <ferry/messages/host_packer.hpp>
#include <ferry/messages/offloader.hpp>
#include <ferry/messages/rank_gate.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/platform/device.hpp>

#include <memory>
#include <mutex>

namespace ferry {

/// The actors of one runtime in an actor system of yours, for a scheduler that is an actor itself:
/// it talks to the offloader, and the supervisor starts and stops the rest.
struct crew {
  supervisor_actor supervisor;

  // Set once the supervisor has answered `start_children`.
  host_memory_actor memory;
  host_packer_actor packer; ///< Null unless the device wants pinned sources.
  copy_stream_actor copies;
  block_prefetcher_actor prefetcher;
  comm_stream_actor gathers; ///< Null unless `runtime_options::ranks` is set.
  rank_gate_actor gate;      ///< As `gathers`.
  component_stager_actor stager;
  offloader_actor offloader;

  /// Returns the cache retention of now, as it is started again when it ends. Null unless
  /// `runtime_options::activations` is set. From any thread.
  [[nodiscard]] cache_retention_actor retention() const;

  /// Makes `whom` the cache retention of now. For the supervisor's list.
  void retain(cache_retention_actor whom);

private:
  mutable std::mutex guard_;
  cache_retention_actor retention_;
};

/// Spawns the supervisor with the list of what it is to start. The system knows the message types:
/// `add_types<caf::id_block::ferry_messages>`. To end it: `stop_children`, then `kill` the
/// supervisor.
[[nodiscard]] std::shared_ptr<crew> spawn_crew(caf::actor_system& system,
                                               std::shared_ptr<device> target,
                                               const runtime_options& options);

} // namespace ferry
