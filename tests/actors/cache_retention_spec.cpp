// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>

#include "support/actor_world.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>

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
  int releases = 0;
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

} // namespace
} // namespace ferry
