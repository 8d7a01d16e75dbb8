// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>

#include "support/edges.hpp"
#include "support/faults.hpp"
#include "support/staged_run.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::contents;
using test::everything;
using test::fake_module;
using test::fake_pipeline;
using test::staged_run;
using test::whole;

constexpr auto whole_dit = R"({"mode":"module","components":["dit"]})";
constexpr auto two_resident =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":2}}})";

TEST_CASE("components come when they are called, and compute with their bytes",
          "[actors][staging]") {
  staged_run run;

  CHECK(run.request());
  CHECK(run.request());
  REQUIRE(run.subject.disable());

  CHECK(run.ordinary());
  CHECK(run.gpu->race_count() == 0);
  CHECK(run.gpu->counters().d2h_bytes == 0);
  CHECK(run.gpu->counters().device_bytes == 0);
  CHECK(run.gpu->counters().pinned_bytes == 0);
}

TEST_CASE("denoisers and encoders make each other leave, and encoders share the device",
          "[actors][staging]") {
  staged_run run;
  REQUIRE(run.subject.begin_request());

  REQUIRE(run.call("text_encoder"));
  REQUIRE(run.call("text_encoder_2"));
  CHECK(run.on_device("text_encoder"));
  CHECK(run.on_device("text_encoder_2"));

  REQUIRE(run.call("transformer"));
  CHECK(run.on_device("transformer"));
  CHECK_FALSE(run.on_device("text_encoder"));
  CHECK_FALSE(run.on_device("text_encoder_2"));

  REQUIRE(run.call("transformer_2"));
  CHECK_FALSE(run.on_device("transformer"));
}

TEST_CASE("a component that is called again is not loaded again", "[actors][staging]") {
  staged_run run;
  REQUIRE(run.call("transformer"));
  const auto copied = run.gpu->counters().h2d_bytes;

  for (int step = 0; step != 8; ++step)
    REQUIRE(run.call("transformer"));

  CHECK(run.gpu->counters().h2d_bytes == copied);
}

TEST_CASE("no request leaves a component on the device, and none allocates", "[actors][staging]") {
  staged_run run;
  REQUIRE(run.request());
  const auto allocations = run.gpu->counters().allocations;
  const auto peak = run.gpu->counters().peak_device_bytes;

  for (int i = 0; i != 5; ++i)
    REQUIRE(run.request());

  for (const auto* path : {"transformer", "transformer_2", "text_encoder", "text_encoder_2"})
    CHECK_FALSE(run.on_device(path));
  CHECK(run.gpu->counters().allocations == allocations);
  CHECK(run.gpu->counters().peak_device_bytes == peak);
}

TEST_CASE("device memory holds the larger side and the decoder, not everything",
          "[actors][staging]") {
  staged_run run;

  const auto state = run.subject.state().value();

  CHECK(state.peak_device_weight_bytes ==
        std::max<std::size_t>(4 * 256, (3 + 2) * 256) + state.resident_bytes);
  CHECK(state.resident_bytes == 256);
}

TEST_CASE("what comes first in a request is on its way when the request has begun",
          "[actors][staging]") {
  staged_run run;
  REQUIRE(run.subject.begin_request());
  CHECK(run.on_device("text_encoder"));
  REQUIRE(run.call("transformer"));
  REQUIRE(run.subject.end_request());

  REQUIRE(run.subject.begin_request());

  CHECK(run.on_device("transformer"));
}

TEST_CASE("which component comes first is learned anew in each request", "[actors][staging]") {
  staged_run run;
  const auto run_in_order = [&](const char* first, const char* second) {
    REQUIRE(run.subject.begin_request());
    REQUIRE(run.call(first));
    REQUIRE(run.call(second));
    REQUIRE(run.subject.end_request());
  };

  // The first one is there before it is called, so that nothing is demanded but the second.
  run_in_order("text_encoder", "transformer");
  REQUIRE(run.subject.begin_request());
  CHECK(run.on_device("text_encoder"));
  REQUIRE(run.subject.end_request());

  run_in_order("transformer", "text_encoder");
  REQUIRE(run.subject.begin_request());
  CHECK(run.on_device("transformer"));
}

TEST_CASE("an unselected component stays, and still makes the others leave", "[actors][staging]") {
  staged_run run{whole_dit};
  REQUIRE(run.call("transformer"));
  CHECK(run.on_device("transformer"));

  CHECK(run.call("text_encoder"));
  CHECK_FALSE(run.on_device("transformer"));

  CHECK(run.call("transformer"));
  CHECK(run.call("text_encoder"));
  CHECK_FALSE(run.on_device("transformer"));
}

TEST_CASE("components that exclude each other cannot run inside one another", "[actors][staging]") {
  staged_run run;

  run.pipeline->call("transformer", [&](fake_module&) {
    CHECK_THROWS_WITH(run.call("text_encoder"), Catch::Contains("slot_conflict") &&
                                                    Catch::Contains("'transformer'") &&
                                                    Catch::Contains("text_encoder"));
  });

  CHECK(run.call("text_encoder"));
}

TEST_CASE("a component that throws is left as one that returned", "[actors][staging]") {
  staged_run run;

  CHECK_THROWS_AS(
      run.pipeline->call("transformer", [](fake_module&) { throw std::runtime_error("no"); }),
      std::runtime_error);

  CHECK(run.request());
}

TEST_CASE("a component whose last use could not be recorded does not leave", "[actors][staging]") {
  staged_run run;

  run.pipeline->call("transformer", [&](fake_module&) { run.gpu->fail_after(0); });
  CHECK_FALSE(run.subject.stage_out("transformer"));

  CHECK(run.gpu->race_count() == 0);
  CHECK(run.subject.disable());
  CHECK(run.ordinary());
}

TEST_CASE("a scheduler brings components in ahead and makes them leave", "[actors][staging]") {
  staged_run run;
  REQUIRE(run.subject.stage_in("transformer"));
  CHECK(run.on_device("transformer"));
  const auto copied = run.gpu->counters().h2d_bytes;
  REQUIRE(run.subject.stage_in("transformer"));
  CHECK(run.call("transformer"));
  CHECK(run.gpu->counters().h2d_bytes == copied);

  REQUIRE(run.subject.stage_out("transformer"));
  CHECK_FALSE(run.on_device("transformer"));
  CHECK(run.subject.stage_out("transformer"));
}

TEST_CASE("staging names what it cannot do, and changes nothing", "[actors][staging]") {
  staged_run run;

  CHECK(run.subject.stage_in("nothing").error().code == errc::not_found);
  CHECK(run.subject.stage_in("vae").error().code == errc::unsupported);
  run.pipeline->call("transformer", [&](fake_module&) {
    CHECK(run.subject.stage_out("transformer").error().code == errc::busy);
    CHECK(run.subject.stage_in("text_encoder").error().code == errc::busy);
  });
  CHECK(run.request());
}

TEST_CASE("a component that finds no room makes no other leave", "[actors][staging]") {
  staged_run run;
  REQUIRE(run.call("text_encoder"));
  REQUIRE(run.on_device("text_encoder"));

  run.pipeline->call("text_encoder_2", [&](fake_module&) {
    CHECK(run.subject.stage_in("transformer").error().code == errc::busy);
  });

  CHECK(run.on_device("text_encoder"));
  CHECK(run.request());
}

TEST_CASE("what came first in a pipeline is forgotten with it", "[actors][staging]") {
  staged_run run;
  REQUIRE(run.subject.begin_request());
  REQUIRE(run.call("transformer"));
  REQUIRE(run.subject.end_request());
  REQUIRE(run.subject.disable());

  const auto smaller = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")->child("blocks", test::blocks(3))));
  smaller->declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});
  REQUIRE(run.subject.enable(smaller, test::resident(1)));

  CHECK(run.subject.begin_request());
  CHECK(run.subject.end_request());
}

TEST_CASE("a request does not end under a component that runs, and goes on", "[actors][staging]") {
  for (const auto* config : {whole, two_resident}) {
    CAPTURE(config);
    staged_run run{config};
    REQUIRE(run.subject.begin_request());

    run.pipeline->call(config == whole ? "transformer" : "transformer.blocks.0", [&](fake_module&) {
      const auto ended = run.subject.end_request();
      REQUIRE_FALSE(ended);
      CHECK(ended.error().code == errc::busy);
      CHECK_THAT(ended.error().detail, Catch::Contains("component 'transformer' is in use"));
      CHECK(run.subject.state()->in_request);
    });

    CHECK(run.subject.end_request());
    CHECK_FALSE(run.on_device("transformer"));
  }
}

TEST_CASE("legacy model-level offload without two sides to swap changes nothing",
          "[actors][staging]") {
  const auto pipeline = std::make_shared<fake_pipeline>(
      test::node("test.root")->child("transformer", test::block())->child("vae", test::block()));
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());

  CHECK(subject.enable(pipeline, test::legacy(test::model_level)));

  CHECK_FALSE(subject.state()->enabled);
  CHECK(pipeline->mutations().empty());
}

TEST_CASE("a component that is not loaded is refused before any is moved", "[actors][staging]") {
  const auto pipeline = test::staged_model();
  pipeline->tree()->at("text_encoder_2")->parameter("late", test::meta_tensor({4}));
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());

  const auto enabled = subject.enable(pipeline, test::compact(whole));

  REQUIRE_FALSE(enabled);
  CHECK(enabled.error().code == errc::invalid_pipeline);
  CHECK_THAT(enabled.error().detail, Catch::Contains("'text_encoder_2' has 1 tensors"));
  CHECK(pipeline->mutations().empty());
}

TEST_CASE("the resident layers of a denoiser come before it runs and leave with the request",
          "[actors][staging]") {
  staged_run run{two_resident};
  const auto state = run.subject.state().value();
  CHECK(state.components.at("transformer").resident_blocks == 2);

  REQUIRE(run.subject.begin_request());
  CHECK(run.on_device("transformer"));
  auto right = true;
  for (int step = 0; step != 3; ++step)
    for (int i = 0; i != 4; ++i)
      run.pipeline->call("transformer.blocks." + std::to_string(i), [&](fake_module& block) {
        const auto bytes = everything(block);
        right = right && std::ranges::all_of(bytes, [i](std::byte b) {
                  return b == static_cast<std::byte>(10 + i);
                });
      });
  CHECK(right);
  const auto copied = run.gpu->counters().h2d_bytes;
  for (int i = 0; i != 100; ++i)
    run.pipeline->call("transformer.blocks.0", [](fake_module&) {});
  const auto fetched_ahead = state.slots * state.slot_bytes; // By now, or still to come.
  CHECK(run.gpu->counters().h2d_bytes <= copied + fetched_ahead);
  REQUIRE(run.subject.end_request());

  CHECK_FALSE(run.on_device("transformer"));
  CHECK(run.gpu->race_count() == 0);
  REQUIRE(run.subject.disable());
  CHECK(run.ordinary());
}

bool staged_life(sim_device& gpu) {
  const std::shared_ptr<sim_device> shared{&gpu, [](sim_device*) {}};
  const auto pipeline = test::staged_model();
  std::map<std::string, contents> original;
  for (const auto& [path, node] : pipeline->tree()->own_children())
    original.emplace(path, everything(*node));
  runtime subject{shared, {.acquire_deadline = 5s}};
  auto right = subject.start() && subject.enable(pipeline, test::compact(whole));
  for (int i = 0; i != 2 && right; ++i) {
    right = subject.begin_request().has_value();
    for (const auto* path : {"text_encoder", "transformer", "transformer_2", "transformer", "vae"})
      pipeline->call(path, [&](fake_module& module) {
        right = everything(module) == original.at(path) && right;
      });
    right = subject.end_request() && right;
  }
  // One that was used and one that is on its way when the backend is disabled.
  pipeline->call("text_encoder", [](fake_module&) {});
  right = subject.stage_in("text_encoder_2") && right;
  return subject.disable() && right;
}

TEST_CASE("without any one of its wait edges staging races or computes on wrong bytes",
          "[actors][edges]") {
  CHECK(test::with_each_edge_removed(sim_options{}, staged_life) >= 4);
}

TEST_CASE("staging uses the wait edges that are its own", "[actors][edges]") {
  const auto run = test::run_without_edge(sim_options{}, "", staged_life);

  const std::set<std::string> seen(run.edges.begin(), run.edges.end());
  CHECK(seen.contains(stage_waits_last_use.name));
  CHECK(seen.contains(compute_waits_stage.name));
}

TEST_CASE("whatever device call fails while components are staged, nothing is left behind",
          "[actors][staging][faults]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto pipeline = test::staged_model();
  std::map<std::string, contents> original;
  for (const auto& [path, node] : pipeline->tree()->own_children())
    original.emplace(path, everything(*node));

  const auto tried = test::at_every_fault_point(
      *gpu,
      [&] {
        runtime subject{gpu, {.acquire_deadline = 5s}};
        auto ok = subject.start() && subject.enable(pipeline, test::compact(whole)) &&
                  subject.begin_request();
        if (ok) {
          for (const auto* path : {"text_encoder", "transformer", "transformer_2", "vae"})
            pipeline->call(path, [](fake_module&) {});
          ok = subject.end_request().has_value();
        }
        return subject.disable() && ok;
      },
      [&] {
        for (const auto& [path, node] : pipeline->tree()->own_children())
          CHECK(everything(*node) == original.at(path));
        CHECK(pipeline->hook_count() == 0);
        test::check_nothing_left(*gpu);
      });

  CHECK(tried > 40);
}

} // namespace
} // namespace ferry
