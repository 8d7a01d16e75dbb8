// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/crew.hpp"

#include <ferry/actors/spawn.hpp>

#include <utility>
#include <vector>

namespace ferry {
namespace {

void introduce_retention(const crew& who) {
  const auto now = who.retention();
  if (!now)
    return;
  if (who.stager)
    post(who.stager, use_cache_retention{now});
  if (who.offloader)
    post(who.offloader, use_cache_retention{now});
}

start_step retention_step(caf::actor_system& system, const runtime_options& options,
                          const std::shared_ptr<crew>& who) {
  return {.name = "cache_retention",
          .spawn = [&system, options, who]() -> child_actor {
            auto spawned = spawn_cache_retention(system, threading::own_thread, options.activations,
                                                 options.cache);
            who->retain(spawned);
            return spawned;
          },
          .policy = when_it_ends::restart,
          .restarted = [who] { introduce_retention(*who); }};
}

start_step packer_step(caf::actor_system& system, const std::shared_ptr<device>& target,
                       const std::shared_ptr<crew>& who) {
  return {.name = "host_packer", .spawn = [&system, target, who]() -> child_actor {
            return who->packer = spawn_host_packer(system, threading::own_thread, target);
          }};
}

start_step recorder_step(caf::actor_system& system, const std::shared_ptr<trace_log>& log) {
  return {.name = "trace_recorder",
          .spawn = [&system, log]() -> child_actor {
            return spawn_trace_recorder(system, threading::own_thread, log);
          },
          .policy = when_it_ends::restart};
}

void add_ranks(std::vector<start_step>& steps, caf::actor_system& system,
               const std::shared_ptr<device>& target, const rank_group& ranks,
               const std::shared_ptr<crew>& who) {
  steps.push_back(
      {.name = "comm_stream_worker", .spawn = [&system, target, ranks, who]() -> child_actor {
         return who->gathers =
                    spawn_comm_stream_worker(system, threading::own_thread, target, ranks.gathers,
                                             who->copies, who->supervisor);
       }});
  steps.push_back({.name = "rank_gate", .spawn = [&system, ranks, who]() -> child_actor {
                     return who->gate = spawn_rank_gate(system, threading::own_thread,
                                                        ranks.meeting, ranks.patience);
                   }});
}

std::shared_ptr<const numa_nodes> memory_nodes(const runtime_options& options) {
  if (options.memory_nodes != nullptr)
    return options.memory_nodes;
  return std::make_shared<numa_nodes>("/", running_kernel());
}

// The order of the start, and backwards of the stop. The supervisor forgets the list when it ends.
std::vector<start_step> start_list(caf::actor_system& system, const std::shared_ptr<device>& target,
                                   const runtime_options& options,
                                   const std::shared_ptr<crew>& who) {
  const offloader_options offloading{.slots = options.slots,
                                     .most_slots = options.most_slots,
                                     .device_memory = options.device_memory,
                                     .acquire_deadline = options.acquire_deadline,
                                     .request_deadline = options.request_deadline,
                                     .callers = options.callers,
                                     .ranges = options.ranges,
                                     .memory_nodes = memory_nodes(options)};
  const host_memory_options pinning{.pinned_memory = options.pinned_memory};
  std::vector<start_step> steps;
  if (options.trace != nullptr)
    steps.push_back(recorder_step(system, options.trace));
  if (options.activations != nullptr)
    steps.push_back(retention_step(system, options, who));
  steps.push_back({.name = "host_memory", .spawn = [&system, pinning, who]() -> child_actor {
                     return who->memory = spawn_host_memory(system, pinning);
                   }});
  if (target->traits().wants_pinned_sources)
    steps.push_back(packer_step(system, target, who));
  steps.push_back({.name = "copy_stream_worker", .spawn = [&system, target, who]() -> child_actor {
                     return who->copies = spawn_copy_stream_worker(system, target, who->supervisor);
                   }});
  if (options.ranks)
    add_ranks(steps, system, target, *options.ranks, who);
  steps.push_back({.name = "block_prefetcher", .spawn = [&system, target, who]() -> child_actor {
                     return who->prefetcher = spawn_block_prefetcher(system, target, who->copies,
                                                                     who->supervisor);
                   }});
  steps.push_back({.name = "component_stager", .spawn = [&system, target, who]() -> child_actor {
                     return who->stager =
                                spawn_component_stager(system, threading::own_thread, target);
                   }});
  steps.push_back(
      {.name = "offloader",
       .spawn = [&system, target, who, offloading, ranks = options.ranks]() -> child_actor {
         auto how = offloading;
         how.packer = who->packer;
         if (ranks)
           how.peers = {ranks->gathers, ranks->meeting,  who->gathers,
                        who->gate,      ranks->patience, ranks->pipelining};
         who->offloader =
             spawn_offloader(system, threading::own_thread, target, how, who->memory, who->copies,
                             who->prefetcher, who->stager, who->supervisor);
         introduce_retention(*who);
         return who->offloader;
       }});
  return steps;
}

} // namespace

cache_retention_actor crew::retention() const {
  const std::scoped_lock lock{guard_};
  return retention_;
}

void crew::retain(cache_retention_actor whom) {
  const std::scoped_lock lock{guard_};
  retention_ = std::move(whom);
}

std::shared_ptr<crew> spawn_crew(caf::actor_system& system, std::shared_ptr<device> target,
                                 const runtime_options& options) {
  const auto who = std::make_shared<crew>();
  who->supervisor =
      spawn_supervisor(system, start_list(system, target, options, who), options.request_deadline);
  return who;
}

} // namespace ferry
