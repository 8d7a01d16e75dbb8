// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>

#include "served_model.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using test::fake_module;
using test::served_model;
using test::whole_components;

std::shared_ptr<sim_device> make_gpu() {
  return std::make_shared<sim_device>(sim_options{});
}

TEST_CASE("an enable of what is enabled is refused, with the same settings or with others",
          "[field_cases][B55]") {
  served_model run{make_gpu()};
  const auto config = test::compact(test::both);
  REQUIRE(run.enable(config));
  const auto hooks = run.model()->hook_count();
  const auto calls = run.model()->mutations();

  CHECK(run.enable(config).error().code == errc::already_enabled);
  CHECK(run.enable(test::compact(whole_components)).error().code == errc::already_enabled);

  CHECK(run.model()->hook_count() == hooks);
  CHECK(run.model()->mutations() == calls);
  CHECK(run.request());
  CHECK(run.subject().disable());
  CHECK(run.ordinary());
}

TEST_CASE("a captured graph is no option, and asking for one is refused beside those there are",
          "[field_cases][B23]") {
  const auto asked =
      resolve_config(R"({"mode":"layer","components":["dit"],"cuda_graph":true})", {});

  REQUIRE_FALSE(asked);
  CHECK_THAT(asked.error().detail,
             Catch::Contains(R"("cuda_graph")") &&
                 Catch::Contains("only mode, components, layer_options, slots and pin_memory"));
}

TEST_CASE("any mode follows any other, and none leaves a byte on the device or pinned",
          "[field_cases][B56]") {
  const auto gpu = make_gpu();
  served_model run{gpu};
  const auto before = gpu->counters();
  const std::vector<offload_config> modes{
      test::compact(whole_components), test::compact(test::both), test::legacy(test::distributed),
      test::resident(2), test::compact(whole_components)};

  for (const auto& mode : modes) {
    REQUIRE(run.enable(mode));
    REQUIRE(run.state().enabled);
    CHECK(run.request());
    REQUIRE(run.subject().disable());

    CHECK(run.ordinary());
    CHECK(gpu->counters().device_bytes == before.device_bytes);
    CHECK(gpu->counters().pinned_bytes == before.pinned_bytes);
    CHECK(gpu->counters().streams == before.streams);
    CHECK(gpu->counters().events == before.events);
  }
}

TEST_CASE("sending away what is away and bringing what is there changes nothing",
          "[field_cases][B59]") {
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(whole_components)));
  auto twice = [&](auto stage) {
    return (run.subject().*stage)("transformer") && (run.subject().*stage)("transformer");
  };

  REQUIRE(twice(&runtime::stage_out));
  REQUIRE(run.subject().stage_in("transformer"));
  const auto copied = gpu->counters().h2d_bytes;
  REQUIRE(twice(&runtime::stage_in));
  CHECK(gpu->counters().h2d_bytes == copied);
  CHECK(run.run("transformer"));
  REQUIRE(twice(&runtime::stage_out));

  CHECK(run.run("transformer"));
  REQUIRE(run.subject().disable());
  CHECK(run.subject().disable().error().code == errc::not_enabled);
  CHECK(run.ordinary());
}

TEST_CASE("every request goes to the device that its runtime was made for", "[field_cases][B60]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  const auto first = make_gpu();
  const auto second = make_gpu();
  served_model one{first};
  served_model other{second};
  REQUIRE(one.enable(test::compact(mode)));
  REQUIRE(other.enable(test::compact(mode)));

  for (int i = 0; i != 3; ++i) {
    const auto idle = first->counters();
    const auto busy = second->counters();
    CHECK(other.request());
    CHECK(first->counters().h2d_bytes == idle.h2d_bytes);
    CHECK(first->counters().copies == idle.copies);
    CHECK(second->counters().h2d_bytes > busy.h2d_bytes);
  }
  CHECK(one.request());
}

TEST_CASE("a request cancelled within its first step leaves nothing, and the next one is right",
          "[field_cases][B63]") {
  const std::string mode = GENERATE(
      as<std::string>{}, test::both, whole_components,
      R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":2}}})");
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(mode)));
  const auto request = run.subject().begin_request();
  REQUIRE(request);
  REQUIRE(run.run("text_encoder"));
  run.model()->call("transformer", [&](fake_module&) {
    for (const auto* block : {"transformer.blocks.0", "transformer.blocks.1"})
      run.model()->call(block, [](fake_module&) {});
    REQUIRE(run.subject().cancel_request(*request));
  });
  CHECK_THROWS_WITH(run.run("transformer_2"), Catch::Contains("cancelled"));
  REQUIRE(run.subject().end_request());

  const auto after = run.state();
  CHECK(after.tickets_in_flight == 0);
  CHECK(after.slots_free == after.slots);
  for (const auto& [path, component] : after.components)
    CHECK_FALSE((component.on_device && component.selected));
  CHECK(run.request());
  CHECK(gpu->race_count() == 0);
  CHECK(run.subject().disable());
  CHECK(run.ordinary());
}

TEST_CASE("one slot and pageable sources, so that nothing overlaps, give the same bits",
          "[field_cases][B86]") {
  const auto on_host = GENERATE(false, true);
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  const auto gpu = make_gpu();
  const std::shared_ptr<device> target =
      on_host ? std::shared_ptr<device>{std::make_shared<host_device>(
                    host_device_options{.memory = 1 << 20})}
              : gpu;
  auto config = test::compact(mode);
  config.pin_memory = false;
  served_model run{target, 1};
  REQUIRE(run.enable(config));

  CHECK(run.request());
  CHECK(run.request());

  CHECK(run.state().pinned_bytes == 0);
  CHECK(gpu->race_count() == 0);
  CHECK(run.subject().disable());
  CHECK(run.ordinary());
}

TEST_CASE("a denoiser that is asked for and not found is an error that names what is there",
          "[field_cases][B87]") {
  const auto wrapped = std::make_shared<test::fake_pipeline>(
      test::node("test.root")
          ->child("stage2", test::node("test.stage")->child("core", test::dit(4))));
  runtime subject{make_gpu(), {}};
  REQUIRE(subject.start());

  const auto asked = subject.enable(wrapped, test::compact(test::dit_only));

  REQUIRE_FALSE(asked);
  CHECK_THAT(asked.error().detail, Catch::Contains("dit") && Catch::Contains("stage2"));
  CHECK_FALSE(subject.state()->enabled);
  CHECK(wrapped->mutations().empty());
  wrapped->declare({.dits = {"stage2.core"}}).plan({.block_attrs = {{"stage2.core", {"blocks"}}}});
  REQUIRE(subject.enable(wrapped, test::compact(test::dit_only)));
  CHECK(subject.state()->components.at("stage2.core").blocks == 4);
}

TEST_CASE("an enabled backend has moved bytes, and holds no more than its state tells",
          "[field_cases][B90]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(mode)));
  REQUIRE(run.request()); // Learns the order.
  const auto before = gpu->counters().h2d_bytes;
  REQUIRE(run.request());
  const auto state = run.state();
  const auto moved = gpu->counters().h2d_bytes - before;
  const auto steps = mode == whole_components ? std::size_t{1} : std::size_t{2};
  const auto once = state.components.at("text_encoder").bytes +
                    steps * (state.components.at("transformer").bytes +
                             state.components.at("transformer_2").bytes);

  CHECK(state.enabled);
  CHECK(moved >= once);
  CHECK(moved <= once + state.slots * state.slot_bytes);
  CHECK(gpu->counters().peak_device_bytes == state.peak_device_weight_bytes);
  CHECK(state.peak_device_weight_bytes < 3 * state.components.at("transformer").bytes);
  CHECK(state.resident_bytes < state.components.at("transformer").bytes);
}

} // namespace
} // namespace ferry
