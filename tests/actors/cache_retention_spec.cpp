// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/crew.hpp>
#include <ferry/actors/spawn.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/actor_world.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace ferry {
namespace {

using namespace std::chrono_literals;

struct fake_cache final : allocator_cache {
  [[nodiscard]] result<cache_telemetry> telemetry() const override { return now; }
  void release() override {
    ++releases;
    if (broken)
      throw ferry_error{{errc::device_failure, "it sticks"}};
    now.reserved = now.allocated;
  }

  cache_telemetry now{.free = 900, .total = 1000, .reserved = 100, .allocated = 100};
  bool broken = false;
  std::atomic<int> releases = 0;
};

struct retention_rig {
  explicit retention_rig(cache_bounds bounds = {})
      : subject(spawn_cache_retention(world.system(), threading::pooled, cache, bounds)) {}
  ~retention_rig() { kill(subject); }

  template <class Message>
  result<void> tell(Message message) {
    return world.ask<void>(subject, message);
  }
  void stage_and_leave() {
    REQUIRE(tell(group_staged{100}));
    cache->now.reserved = 200;
    REQUIRE(tell(group_left{0}));
  }
  cache_state state() { return *world.ask<cache_state>(subject, query_cache{}); }

  test::actor_world world;
  std::shared_ptr<fake_cache> cache = std::make_shared<fake_cache>();
  cache_retention_actor subject;
};

TEST_CASE("what one component freed is given back when it has left", "[actors][cache_retention]") {
  retention_rig rig;
  REQUIRE(rig.tell(group_staged{80}));
  rig.cache->now.reserved = 300;

  REQUIRE(rig.tell(group_left{0}));

  CHECK(rig.cache->releases == 1);
  CHECK(rig.state().releases == 1);
}

TEST_CASE("no more is kept than the configured part of the device", "[actors][cache_retention]") {
  retention_rig rig{{.max_cached_fraction = 0.05}};

  for (int request = 0; request != 2; ++request)
    rig.stage_and_leave();

  CHECK(rig.cache->releases == 2);
}

TEST_CASE("what has been seen to be needed again is kept", "[actors][cache_retention]") {
  retention_rig rig;
  for (int request = 0; request != 2; ++request)
    rig.stage_and_leave();

  CHECK(rig.cache->releases == 1);
}

TEST_CASE("what a backend needed is not kept for the next", "[actors][cache_retention]") {
  retention_rig rig;
  rig.stage_and_leave();
  REQUIRE(rig.tell(groups_closed{}));
  CHECK(rig.state().staged_bytes == 0);

  rig.stage_and_leave();

  CHECK(rig.cache->releases == 2);
}

TEST_CASE("a group that nobody told of may leave", "[actors][cache_retention]") {
  retention_rig rig;

  CHECK(rig.tell(group_left{100}));

  CHECK(rig.state().staged_bytes == 100);
}

TEST_CASE("nothing is released while a component comes", "[actors][cache_retention]") {
  retention_rig rig;
  rig.cache->now.reserved = 600;

  REQUIRE(rig.tell(group_staged{100}));

  CHECK(rig.cache->releases == 0);
}

TEST_CASE("a release can be asked for", "[actors][cache_retention]") {
  retention_rig rig;

  CHECK(rig.tell(release_cache{}));

  CHECK(rig.cache->releases == 1);
}

TEST_CASE("an allocator that cannot release stops nobody", "[actors][cache_retention]") {
  retention_rig rig;
  rig.cache->broken = true;
  rig.cache->now.reserved = 600;
  REQUIRE(rig.tell(group_staged{100}));

  CHECK(rig.tell(group_left{0}));
  CHECK(rig.tell(release_cache{}).error().code == errc::device_failure);

  CHECK(rig.state().failures == 2);
}

/// Two components that take turns, under a crew in a system of this program's own.
struct served_pipeline {
  explicit served_pipeline(
      std::shared_ptr<allocator_cache> activations,
      const std::shared_ptr<sim_device>& gpu = std::make_shared<sim_device>(sim_options{}))
      : actors(spawn_crew(system, gpu, {.activations = std::move(activations)})) {
    REQUIRE(ask<void>(system, actors->supervisor, patience, start_children{}));
  }
  ~served_pipeline() {
    CHECK(ask<stopped>(system, actors->supervisor, patience, stop_children{5s}));
    kill(actors->supervisor);
  }

  [[nodiscard]] result<enabled> enable() {
    return ask<enabled>(system, actors->offloader, patience,
                        enable_pipeline{pipeline,
                                        test::compact(R"({"mode":"module",
                                        "components":["dit","text_encoder"]})"),
                                        {}});
  }
  void take_turns() {
    for (const auto* path : {"text_encoder", "transformer", "text_encoder"})
      pipeline->call(path, [](test::fake_module&) {});
  }

  struct config : caf::actor_system_config {
    config() {
      add_types<caf::id_block::ferry_messages>(*this);
      ferry::add_error_category(*this);
      use_workers(*this, 1);
    }
  };

  static constexpr auto patience = 10s;
  std::shared_ptr<test::fake_pipeline> pipeline =
      std::make_shared<test::fake_pipeline>(test::node("test.root")
                                                ->child("transformer", test::block(16, 1))
                                                ->child("text_encoder", test::block(16, 2)));
  config config_;
  caf::actor_system system{config_};
  std::shared_ptr<crew> actors;
};

TEST_CASE("components that take turns make the allocator give back what one has freed",
          "[actors][cache_retention]") {
  const auto cache = std::make_shared<fake_cache>();
  cache->now.reserved = 600;
  served_pipeline run{cache};
  REQUIRE(run.enable());

  run.take_turns();

  CHECK(ask<cache_state>(run.system, run.actors->retention(), 10s, query_cache{})->releases >= 1);
}

TEST_CASE("what a warm-up request has staged is kept from the first request that counts",
          "[actors][cache_retention]") {
  const auto cache = std::make_shared<fake_cache>();
  cache->now = {.free = 4000, .total = 4000, .reserved = 300, .allocated = 0};
  served_pipeline run{cache};
  REQUIRE(run.enable());
  const auto request = [&](std::uint64_t id) {
    REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s,
                          queue_request{request_id{id}, 10s, {}, {}}));
    run.take_turns();
    REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s, end_request{}));
    // The stager's reports are handled before what is asked after them.
    return ask<cache_state>(run.system, run.actors->retention(), 10s, query_cache{})->releases;
  };

  const auto warm_up = request(1);
  cache->now.reserved = 300;

  CHECK(warm_up == 1);
  CHECK(request(2) == warm_up);
}

TEST_CASE("what is staged is counted once, and no more once it is gone",
          "[actors][cache_retention]") {
  served_pipeline run{std::make_shared<fake_cache>()};
  REQUIRE(run.enable());
  const auto staged = [&] {
    return ask<cache_state>(run.system, run.actors->retention(), 10s, query_cache{})->staged_bytes;
  };
  const auto stage = [&](bool in) {
    REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s,
                          stage_component{"transformer", in, {}}));
  };

  stage(true);
  stage(true);
  CHECK(staged() == 256);
  stage(false);
  stage(false);
  CHECK(staged() == 0);
  stage(true);
  REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s, disable_backend{}));
  CHECK(staged() == 0);
}

TEST_CASE("a cache retention that ended is started again and told of what is there",
          "[actors][cache_retention]") {
  const auto cache = std::make_shared<fake_cache>();
  cache->now.reserved = 600;
  served_pipeline run{cache};
  REQUIRE(run.enable());
  REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s,
                        stage_component{"transformer", true, {}}));

  kill(run.actors->retention());
  // Only one that was started again and made known to the stager releases anything.
  for (int turns = 0; turns != 10'000 && cache->releases == 0; ++turns)
    run.take_turns();

  CHECK(cache->releases >= 1);
  const auto staged = [&] {
    const auto now = ask<cache_state>(run.system, run.actors->retention(), 10s, query_cache{});
    return now ? now->staged_bytes : 0;
  };
  for (int tries = 0; tries != 10'000 && staged() != 256; ++tries)
    std::this_thread::yield();
  CHECK(staged() == 256);
}

/// Keeps all memory of a device until it is made to give it back.
struct hoard final : allocator_cache {
  explicit hoard(std::shared_ptr<device> of)
      : owner(std::move(of)), kept(*owner, memory_kind::device, owner->memory().free) {}

  [[nodiscard]] result<cache_telemetry> telemetry() const override {
    return cache_telemetry{.free = 900, .total = 1000, .reserved = 100, .allocated = 100};
  }
  void release() override {
    ++releases;
    if (broken)
      throw ferry_error{{errc::device_failure, "it sticks"}};
    kept = {};
  }

  std::shared_ptr<device> owner;
  memory_block kept;
  bool broken = false;
  std::atomic<int> releases = 0;
};

[[nodiscard]] std::shared_ptr<sim_device> device_of(std::size_t bytes) {
  sim_options options;
  options.memory = bytes;
  return std::make_shared<sim_device>(options);
}

struct full_device {
  explicit full_device(std::size_t bytes)
      : gpu(device_of(bytes)), cache(std::make_shared<hoard>(gpu)), run(cache, gpu) {}

  std::shared_ptr<sim_device> gpu;
  std::shared_ptr<hoard> cache;
  served_pipeline run;
};

TEST_CASE("an enable without room gets what the allocator keeps", "[actors][cache_retention]") {
  full_device rig{1024};

  CHECK(rig.run.enable());

  CHECK(rig.cache->releases == 1);
  rig.run.take_turns();
}

TEST_CASE("an enable that has no room even then is refused after one release",
          "[actors][cache_retention]") {
  full_device rig{255};

  CHECK(rig.run.enable().error().code == errc::out_of_device_memory);

  CHECK(rig.cache->releases == 1);
  CHECK(rig.run.pipeline->hook_count() == 0);
  rig.run.take_turns();
}

TEST_CASE("an enable without room fails for want of room when nothing can be released",
          "[actors][cache_retention]") {
  full_device rig{1024};
  rig.cache->broken = true;
  CHECK(rig.run.enable().error().code == errc::out_of_device_memory);

  rig.cache->broken = false;
  CHECK(rig.run.enable());
}

TEST_CASE("an enable with room releases nothing", "[actors][cache_retention]") {
  full_device rig{1024};
  rig.cache->kept = {};

  CHECK(rig.run.enable());

  CHECK(rig.cache->releases == 0);
}

TEST_CASE("an enable without room asks the cache retention that was started again",
          "[actors][cache_retention]") {
  full_device rig{1024};
  kill(rig.run.actors->retention());

  auto enabled = rig.run.enable();
  for (int tries = 0; tries != 1000 && !enabled; ++tries)
    enabled = rig.run.enable();

  CHECK(enabled);
}

} // namespace
} // namespace ferry
