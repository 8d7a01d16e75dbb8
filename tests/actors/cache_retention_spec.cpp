// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/crew.hpp>
#include <ferry/actors/spawn.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/actor_world.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <atomic>
#include <chrono>
#include <memory>
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
  ~retention_rig() { kill(subject); }

  template <class Message>
  result<void> tell(Message message) {
    return world.ask<void>(subject, message);
  }
  cache_state state() { return *world.ask<cache_state>(subject, query_cache{}); }

  test::actor_world world;
  std::shared_ptr<fake_cache> cache = std::make_shared<fake_cache>();
  cache_retention_actor subject =
      spawn_cache_retention(world.system(), threading::pooled, cache, {});
};

TEST_CASE("what one component freed is given back when it has left", "[actors][cache_retention]") {
  retention_rig rig;
  REQUIRE(rig.tell(group_staged{80}));
  rig.cache->now.reserved = 300;

  REQUIRE(rig.tell(group_left{80}));

  CHECK(rig.cache->releases == 1);
  CHECK(rig.state().releases == 1);
}

TEST_CASE("what has been seen to be needed again is kept", "[actors][cache_retention]") {
  retention_rig rig;
  for (int request = 0; request != 2; ++request) {
    REQUIRE(rig.tell(group_staged{100}));
    rig.cache->now.reserved = 200;
    REQUIRE(rig.tell(group_left{100}));
  }

  CHECK(rig.cache->releases == 1);
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

  CHECK(rig.tell(group_left{100}));
  CHECK(rig.tell(release_cache{}).error().code == errc::device_failure);

  CHECK(rig.state().failures == 2);
}

/// Two components that take turns, under a crew in a system of this program's own.
struct served_turns {
  explicit served_turns(std::shared_ptr<allocator_cache> activations)
      : actors(spawn_crew(system, gpu, {.activations = std::move(activations)})) {
    REQUIRE(ask<void>(system, actors->supervisor, patience, start_children{}));
    REQUIRE(ask<enabled>(system, actors->offloader, patience,
                         enable_pipeline{pipeline,
                                         test::compact(R"({"mode":"module",
                                         "components":["dit","text_encoder"]})"),
                                         {}}));
  }
  ~served_turns() {
    CHECK(ask<stopped>(system, actors->supervisor, patience, stop_children{5s}));
    kill(actors->supervisor);
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
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
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
  served_turns run{cache};

  run.take_turns();

  CHECK(ask<cache_state>(run.system, run.actors->retention, 10s, query_cache{})->releases >= 1);
}

TEST_CASE("what is staged is counted once, and no more once it is gone",
          "[actors][cache_retention]") {
  served_turns run{std::make_shared<fake_cache>()};
  const auto staged = [&] {
    return ask<cache_state>(run.system, run.actors->retention, 10s, query_cache{})->staged_bytes;
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
  served_turns run{cache};
  REQUIRE(ask<answered>(run.system, run.actors->offloader, 10s,
                        stage_component{"transformer", true, {}}));

  kill(run.actors->retention);
  // Only one that was started again and made known to the stager releases anything; that a
  // component leaves which it was not told of breaks its ledger.
  for (int turns = 0; turns != 10'000 && cache->releases == 0; ++turns)
    run.take_turns();

  CHECK(cache->releases >= 1);
}

} // namespace
} // namespace ferry
