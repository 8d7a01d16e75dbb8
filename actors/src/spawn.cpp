// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/spawn.hpp"

#include "block_prefetcher.hpp"
#include "cache_retention.hpp"
#include "comm_stream_worker.hpp"
#include "component_stager.hpp"
#include "copy_stream_worker.hpp"
#include "host_memory.hpp"
#include "host_packer.hpp"
#include "offloader.hpp"
#include "rank_gate.hpp"
#include "supervisor.hpp"
#include "trace_recorder.hpp"

#include <utility>

namespace ferry {

supervisor_actor spawn_supervisor(caf::actor_system& system, std::vector<start_step> steps,
                                  std::chrono::milliseconds start_deadline) {
  return system.spawn<supervisor>(std::move(steps), start_deadline);
}

host_memory_actor spawn_host_memory(caf::actor_system& system, const host_memory_options& options) {
  return system.spawn<host_memory>(options);
}

host_packer_actor spawn_host_packer(caf::actor_system& system, threading where,
                                    std::shared_ptr<device> owner) {
  if (where == threading::own_thread)
    return system.spawn<host_packer, caf::detached>(std::move(owner));
  return system.spawn<host_packer>(std::move(owner));
}

copy_stream_actor spawn_copy_stream_worker(caf::actor_system& system, std::shared_ptr<device> owner,
                                           const supervisor_actor& supervisor) {
  return system.spawn<copy_stream_worker>(std::move(owner), supervisor);
}

comm_stream_actor spawn_comm_stream_worker(caf::actor_system& system, threading where,
                                           std::shared_ptr<device> owner,
                                           std::shared_ptr<communicator> ranks,
                                           const copy_stream_actor& copies,
                                           const supervisor_actor& supervisor) {
  if (where == threading::own_thread)
    return system.spawn<comm_stream_worker, caf::detached>(std::move(owner), std::move(ranks),
                                                           copies, supervisor);
  return system.spawn<comm_stream_worker>(std::move(owner), std::move(ranks), copies, supervisor);
}

rank_gate_actor spawn_rank_gate(caf::actor_system& system, threading where,
                                std::shared_ptr<rendezvous> ranks, nanoseconds patience) {
  if (where == threading::own_thread)
    return system.spawn<rank_gate, caf::detached>(std::move(ranks), patience);
  return system.spawn<rank_gate>(std::move(ranks), patience);
}

cache_retention_actor spawn_cache_retention(caf::actor_system& system, threading where,
                                            std::shared_ptr<allocator_cache> cache,
                                            cache_bounds bounds) {
  if (where == threading::own_thread)
    return system.spawn<cache_retention, caf::detached>(std::move(cache), bounds);
  return system.spawn<cache_retention>(std::move(cache), bounds);
}

trace_recorder_actor spawn_trace_recorder(caf::actor_system& system, threading where,
                                          std::shared_ptr<trace_log> log) {
  if (where == threading::own_thread)
    return system.spawn<trace_recorder, caf::detached>(std::move(log));
  return system.spawn<trace_recorder>(std::move(log));
}

component_stager_actor spawn_component_stager(caf::actor_system& system, threading where,
                                              std::shared_ptr<device> owner) {
  if (where == threading::own_thread)
    return system.spawn<component_stager, caf::detached>(std::move(owner));
  return system.spawn<component_stager>(std::move(owner));
}

block_prefetcher_actor spawn_block_prefetcher(caf::actor_system& system,
                                              std::shared_ptr<device> owner,
                                              const copy_stream_actor& copies,
                                              const supervisor_actor& supervisor) {
  return system.spawn<block_prefetcher>(std::move(owner), copies, supervisor);
}

offloader_actor spawn_offloader(caf::actor_system& system, threading where,
                                std::shared_ptr<device> owner, const offloader_options& options,
                                const host_memory_actor& memory, const copy_stream_actor& copies,
                                const block_prefetcher_actor& prefetcher,
                                const component_stager_actor& stager,
                                const supervisor_actor& supervisor) {
  if (where == threading::own_thread)
    return system.spawn<offloader, caf::detached>(std::move(owner), options, memory, copies,
                                                  prefetcher, stager, supervisor);
  return system.spawn<offloader>(std::move(owner), options, memory, copies, prefetcher, stager,
                                 supervisor);
}

} // namespace ferry
