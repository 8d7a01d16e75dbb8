// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/spawn.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/actor_world.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::test {

[[nodiscard]] inline queue_request queue(std::uint64_t id, causal_stamp stamp = {}) {
  return {request_id{id}, std::chrono::seconds{5}, std::move(stamp)};
}

/// The real offloader, prefetcher, stager, copy worker and packer, moved message by message.
struct offloader_rig {
  using make_stager =
      std::function<component_stager_actor(actor_world&, const std::shared_ptr<device>&)>;

  [[nodiscard]] static component_stager_actor real_stager(actor_world& home,
                                                          const std::shared_ptr<device>& target) {
    return spawn_component_stager(home.system(), threading::pooled, target);
  }

  offloader_rig() : offloader_rig(real_stager) {}
  explicit offloader_rig(const make_stager& make)
      : stager(make(world, gpu)),
        subject(spawn_offloader(world.system(), threading::pooled, gpu,
                                {.acquire_deadline = std::chrono::seconds{5},
                                 .request_deadline = std::chrono::seconds{5},
                                 .packer = packer},
                                memory, copies, prefetcher, stager, supervisor)) {
    REQUIRE(world.ask<void>(packer, start_child{1}));
    REQUIRE(world.ask<void>(copies, start_child{1}));
    REQUIRE(world.ask<void>(prefetcher, start_child{1}));
    REQUIRE(world.ask<void>(stager, start_child{1}));
    REQUIRE(world.ask<void>(subject, start_child{1}));
  }
  ~offloader_rig() {
    const release_child release{std::chrono::seconds{1}};
    static_cast<void>(world.ask<answered>(subject, release));
    static_cast<void>(world.ask<answered>(stager, release));
    static_cast<void>(world.ask<answered>(prefetcher, release));
    static_cast<void>(world.ask<answered>(copies, release));
    static_cast<void>(world.ask<answered>(packer, release));
    kill(subject);
    kill(supervisor);
  }

  template <class Answer, class Message>
  [[nodiscard]] test::question<Answer> question(Message message) {
    return {world.system(), subject, std::move(message)};
  }
  [[nodiscard]] result<enabled> enable() {
    return world.ask<enabled>(subject, enable_weights{blocks.weights(), gpu->stamp()});
  }
  [[nodiscard]] result<enabled> enable(std::shared_ptr<fake_pipeline> model,
                                       std::string_view config) {
    return world.ask<enabled>(subject,
                              enable_pipeline{std::move(model), compact(config), gpu->stamp()});
  }
  template <class Message>
  [[nodiscard]] errc refusal(Message message) {
    const auto answer = world.ask<answered>(subject, std::move(message));
    REQUIRE_FALSE(answer);
    return answer.error().code;
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  byte_blocks blocks{{4}, 1};
  fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<fake_supervisor>(reports);
  host_memory_actor memory = spawn_host_memory(world.system(), {});
  host_packer_actor packer = spawn_host_packer(world.system(), threading::pooled, gpu);
  copy_stream_actor copies = spawn_copy_stream_worker(world.system(), gpu, supervisor);
  block_prefetcher_actor prefetcher =
      spawn_block_prefetcher(world.system(), gpu, copies, supervisor);
  component_stager_actor stager;
  offloader_actor subject;
};

} // namespace ferry::test
