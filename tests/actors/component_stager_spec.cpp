// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/messages/component_stager.hpp>
#include <ferry/offload/allocator_cache.hpp>
#include <ferry/offload/group_gate.hpp>

#include "support/catch.hpp"
#include "support/offloader_rig.hpp"

#include <memory>
#include <string>

namespace ferry {
namespace {

constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

/// A rig with two encoders, which share the device, and a denoiser.
struct stager_rig : test::offloader_rig {
  stager_rig() {
    model
        ->declare(
            {.dits = {"transformer"}, .encoders = {"text_encoder", "text_encoder_2"}, .vaes = {}})
        .plan(
            {.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});
    auto answer = enable(model, whole);
    REQUIRE(answer);
    gpu->observe(answer->stamp);
    backend = std::move(*answer);
  }

  [[nodiscard]] group_id group(const std::string& path) const {
    return backend.group_paths.at(path);
  }
  [[nodiscard]] bool bring_in(const std::string& path) {
    const auto staged = world.ask<answered>(stager, stage_group_in{group(path), gpu->stamp()});
    if (staged)
      gpu->observe(staged->stamp);
    return staged.has_value();
  }
  template <class Message>
  [[nodiscard]] result<answered> send(Message message) {
    return world.ask<answered>(stager, std::move(message));
  }
  [[nodiscard]] bool on_device(const std::string& path) {
    return world.ask<offload_state>(subject, query_offload{})->components.at(path).on_device;
  }

  std::shared_ptr<test::fake_pipeline> model = std::make_shared<test::fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")->child("blocks", test::blocks(4)))
          ->child("text_encoder", test::node("test.encoder")->child("block", test::blocks(3)))
          ->child("text_encoder_2", test::node("test.encoder")->child("block", test::blocks(2))));
  enabled backend;
};

TEST_CASE("the end of a request names the group that is held, and the others have left",
          "[actors][component_stager]") {
  const auto held = GENERATE(std::string{"text_encoder"}, std::string{"text_encoder_2"});
  const auto* other = held == "text_encoder" ? "text_encoder_2" : "text_encoder";
  stager_rig rig;
  REQUIRE(rig.bring_in("text_encoder"));
  REQUIRE(rig.bring_in("text_encoder_2"));
  rig.backend.groups->enter(rig.group(held));

  const auto ended = rig.world.ask<answered>(rig.stager, end_request{rig.gpu->stamp()});

  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == errc::busy);
  CHECK_THAT(ended.error().detail, Catch::Contains("'" + held + "'"));
  CHECK(rig.on_device(held));
  CHECK_FALSE(rig.on_device(other));
  rig.backend.groups->leave(rig.group(held));
}

TEST_CASE("whoever waits for a group learns of a drain at once", "[actors][component_stager]") {
  stager_rig rig;

  REQUIRE(rig.world.ask<void>(rig.stager, drain_child{{errc::device_failure, "first"}, true}));

  // Nobody handles the demand while this waits.
  CHECK_THROWS_WITH(rig.backend.groups->enter(rig.group("text_encoder")), Catch::Contains("first"));
}

/// Counts its releases, and cannot tell what it keeps.
struct silent_cache final : allocator_cache {
  [[nodiscard]] result<cache_telemetry> telemetry() const override {
    return tl::unexpected(failure{errc::unsupported, "no telemetry"});
  }
  void release() override { ++releases; }

  int releases = 0;
};

TEST_CASE("however many groups leave for one that comes, or with a request, the cache is told once",
          "[actors][component_stager][B80]") {
  const auto cache = std::make_shared<silent_cache>();
  stager_rig rig;
  const auto retention =
      spawn_cache_retention(rig.world.system(), threading::pooled, cache, cache_bounds{});
  REQUIRE(rig.world.ask<void>(rig.stager, use_cache_retention{retention}));

  REQUIRE(rig.bring_in("text_encoder"));
  REQUIRE(rig.bring_in("text_encoder_2"));
  CHECK(cache->releases == 0);
  REQUIRE(rig.bring_in("transformer"));
  CHECK(cache->releases == 1);
  REQUIRE(rig.bring_in("text_encoder"));
  REQUIRE(rig.bring_in("text_encoder_2"));
  CHECK(cache->releases == 2);
  REQUIRE(rig.send(end_request{rig.gpu->stamp()}));
  CHECK(cache->releases == 3);
  kill(retention);
}

TEST_CASE("a stager without a backend stages nothing, and closes none",
          "[actors][component_stager]") {
  test::offloader_rig rig;
  const auto refusal = [&](auto message) {
    return rig.world.ask<answered>(rig.stager, std::move(message)).error().code;
  };

  CHECK(refusal(drain_groups{}) == errc::not_enabled);
  CHECK(refusal(stage_group_in{group_id{0}, {}}) == errc::not_enabled);
  CHECK(refusal(stage_group_out{group_id{0}, {}}) == errc::not_enabled);
  CHECK(refusal(begin_request{}) == errc::not_enabled);
  CHECK(refusal(end_request{}) == errc::not_enabled);
  CHECK(rig.world.ask<answered>(rig.stager, close_groups{}));
  CHECK(rig.world.ask<void>(rig.stager, demand_group{group_id{0}, {}}));
}

TEST_CASE("a stager that serves a backend takes on no other", "[actors][component_stager]") {
  stager_rig rig;

  CHECK(rig.send(open_groups{nullptr, {}}).error().code == errc::busy);

  CHECK(rig.bring_in("text_encoder"));
}

TEST_CASE("a drained stager refuses with the first cause, and can still be waited for and closed",
          "[actors][component_stager]") {
  stager_rig rig;
  REQUIRE(rig.world.ask<void>(rig.stager, drain_child{{errc::device_failure, "first"}, true}));
  REQUIRE(rig.world.ask<void>(rig.stager, drain_child{{errc::internal, "second"}, true}));

  CHECK(rig.send(stage_group_in{rig.group("text_encoder"), {}}).error().detail == "first");
  CHECK(rig.send(begin_request{}).error().detail == "first");
  CHECK(rig.send(open_groups{nullptr, {}}).error().detail == "first");
  CHECK(rig.send(drain_groups{rig.gpu->stamp()}));
  CHECK(rig.send(close_groups{rig.gpu->stamp()}));
}

TEST_CASE("what comes first in a request is learned anew with each backend",
          "[actors][component_stager]") {
  stager_rig rig;
  REQUIRE(rig.send(begin_request{rig.gpu->stamp()}));
  REQUIRE(
      rig.world.ask<void>(rig.stager, demand_group{rig.group("transformer"), rig.gpu->stamp()}));
  REQUIRE(rig.send(end_request{rig.gpu->stamp()}));
  const auto disabled = rig.world.ask<answered>(rig.subject, disable_backend{rig.gpu->stamp()});
  REQUIRE(disabled);
  rig.gpu->observe(disabled->stamp);
  auto again = rig.enable(rig.model, whole);
  REQUIRE(again);
  rig.gpu->observe(again->stamp);

  // Outside a request.
  REQUIRE(
      rig.world.ask<void>(rig.stager, demand_group{rig.group("text_encoder_2"), rig.gpu->stamp()}));
  REQUIRE(rig.send(begin_request{rig.gpu->stamp()}));

  CHECK(rig.on_device("text_encoder_2"));
}

} // namespace
} // namespace ferry
