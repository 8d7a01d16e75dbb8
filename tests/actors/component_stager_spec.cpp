// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/messages/component_stager.hpp>
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

} // namespace
} // namespace ferry
