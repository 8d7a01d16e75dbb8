// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

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
#include <ferry/messages/trace_recorder.hpp>
#include <ferry/offload/bounded_allocator_cache.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/communicator.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/numa.hpp>
#include <ferry/platform/profile_ranges.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

class trace_log;

/// Where an actor that may block runs.
enum class threading : std::uint8_t {
  own_thread, ///< The default: it blocks nobody else.
  pooled,     ///< On the workers, for tests that drive every message.
};

/// What an offloader needs to know of the other ranks.
struct rank_peers {
  std::shared_ptr<communicator> ranks;
  std::shared_ptr<rendezvous> meeting;
  comm_stream_actor gathers;
  rank_gate_actor gate;
  nanoseconds patience{}; ///< Of the gate.
  gather_pipelining pipelining = gather_pipelining::overlapped;
};

struct offloader_options {
  std::size_t slots = 2;
  std::optional<std::size_t> most_slots = std::nullopt;      ///< Nothing: as many as `slots`.
  std::optional<std::uint64_t> device_memory = std::nullopt; ///< Ceiling for weights.
  std::chrono::milliseconds acquire_deadline{60'000};
  std::chrono::milliseconds request_deadline{60'000}; ///< For each question to another actor.
  std::optional<rank_peers> peers = std::nullopt;     ///< Nothing: this rank is alone.
  host_packer_actor packer = {};                      ///< Null: no block is staged.
  std::shared_ptr<caller_streams> callers = nullptr;  ///< Null: they have none of their own.
  std::shared_ptr<profile_ranges> ranges = nullptr;   ///< Null: no profiler is told anything.
  /// Null: of no node of the host's memory is known.
  std::shared_ptr<const numa_nodes> memory_nodes = nullptr;
};

struct host_memory_options {
  std::optional<std::uint64_t> pinned_memory = std::nullopt; ///< Most to pin at a time.
  std::filesystem::path root = "/"; ///< Where `proc` and `sys` are; not `/` in tests only.
};

/// What the supervisor does when a child ends by itself.
enum class when_it_ends : std::uint8_t {
  stop_all, ///< The others cannot do their work without it, or its state is lost.
  restart,  ///< Up to three times a start, then as above.
};

/// How one child comes to life. `spawn` makes the actor and nothing else: what it owns on the
/// device it makes when it is told to start.
struct start_step {
  std::string name;
  std::function<child_actor()> spawn;
  when_it_ends policy = when_it_ends::stop_all;
  /// Called once a restarted child is started, so that others learn of it. May be empty.
  std::function<void()> restarted = {};
};

// One function an actor. An actor keeps its share of the device until it is released. The system
// knows the message types: `add_types<caf::id_block::ferry_messages>`.

[[nodiscard]] supervisor_actor spawn_supervisor(caf::actor_system& system,
                                                std::vector<start_step> steps,
                                                std::chrono::milliseconds start_deadline);

[[nodiscard]] host_memory_actor spawn_host_memory(caf::actor_system& system,
                                                  const host_memory_options& options);

[[nodiscard]] host_packer_actor spawn_host_packer(caf::actor_system& system, threading where,
                                                  std::shared_ptr<device> owner);

[[nodiscard]] copy_stream_actor spawn_copy_stream_worker(caf::actor_system& system,
                                                         std::shared_ptr<device> owner,
                                                         const supervisor_actor& supervisor);

/// `ranks` is used by nobody else. It may wait for other ranks before it enqueues a gather.
[[nodiscard]] comm_stream_actor spawn_comm_stream_worker(caf::actor_system& system, threading where,
                                                         std::shared_ptr<device> owner,
                                                         std::shared_ptr<communicator> ranks,
                                                         const copy_stream_actor& copies,
                                                         const supervisor_actor& supervisor);

/// `patience` is for the slowest rank to vote.
[[nodiscard]] rank_gate_actor spawn_rank_gate(caf::actor_system& system, threading where,
                                              std::shared_ptr<rendezvous> ranks,
                                              nanoseconds patience);

/// `cache` is what the model's activations come from.
[[nodiscard]] cache_retention_actor spawn_cache_retention(caf::actor_system& system,
                                                          threading where,
                                                          std::shared_ptr<allocator_cache> cache,
                                                          cache_bounds bounds);

[[nodiscard]] trace_recorder_actor spawn_trace_recorder(caf::actor_system& system, threading where,
                                                        std::shared_ptr<trace_log> log);

[[nodiscard]] component_stager_actor
spawn_component_stager(caf::actor_system& system, threading where, std::shared_ptr<device> owner);

[[nodiscard]] block_prefetcher_actor spawn_block_prefetcher(caf::actor_system& system,
                                                            std::shared_ptr<device> owner,
                                                            const copy_stream_actor& copies,
                                                            const supervisor_actor& supervisor);

[[nodiscard]] offloader_actor
spawn_offloader(caf::actor_system& system, threading where, std::shared_ptr<device> owner,
                const offloader_options& options, const host_memory_actor& memory,
                const copy_stream_actor& copies, const block_prefetcher_actor& prefetcher,
                const component_stager_actor& stager, const supervisor_actor& supervisor);

} // namespace ferry
