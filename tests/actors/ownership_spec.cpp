// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/life_plans.hpp"
#include "support/resolution.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using calls = std::vector<std::string>;

constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";
constexpr auto streamed = R"({"mode":"layer","components":["dit","text_encoder"]})";

/// A pipeline that has a model-level offload of its own, and two runtimes that want it.
struct wanted_pipeline {
  wanted_pipeline() {
    pipeline->offloads_itself(own);
    REQUIRE(first.start());
    REQUIRE(second.start());
  }

  [[nodiscard]] result<void> enable(runtime& by, const char* config) {
    return by.enable(pipeline, test::compact(config));
  }

  test::fake_model_offload own;
  std::shared_ptr<test::fake_pipeline> pipeline = test::mortal_pipeline();
  runtime first{std::make_shared<sim_device>(sim_options{}), {}};
  runtime second{std::make_shared<sim_device>(sim_options{}), {}};
};

TEST_CASE("a pipeline that offloads itself has one owner", "[actors][enable]") {
  wanted_pipeline run;
  REQUIRE(run.enable(run.first, whole));
  run.own.fail_enable = true;

  CHECK(run.enable(run.second, whole).error().code == errc::already_enabled);
  CHECK(run.enable(run.second, streamed).error().code == errc::already_enabled);

  CHECK(run.own.calls == calls{"enable"});
  CHECK(run.pipeline->hook_count() == 0);
}

TEST_CASE("a pipeline whose blocks are streamed does not offload itself for another",
          "[actors][enable]") {
  wanted_pipeline run;
  REQUIRE(run.enable(run.first, streamed));

  const auto refused = run.enable(run.second, whole);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::already_enabled);
  CHECK_THAT(refused.error().detail, Catch::Contains("another runtime offloads test.pipeline"));
  CHECK(run.own.calls.empty());
}

TEST_CASE("an owner that disables, stops or fails to enable leaves the pipeline to others",
          "[actors][enable]") {
  wanted_pipeline run;

  for (const auto* config : {whole, streamed}) {
    REQUIRE(run.enable(run.first, config));
    REQUIRE(run.first.disable());
    REQUIRE(run.enable(run.second, config));
    REQUIRE(run.second.stop(std::chrono::seconds{10}));
    REQUIRE(run.second.start());
  }
  run.own.fail_enable = true;
  CHECK_FALSE(run.enable(run.first, whole));
  run.pipeline->fail_after(2);
  CHECK_FALSE(run.enable(run.first, streamed));

  CHECK(run.enable(run.second, streamed));
}

TEST_CASE("a request of a pipeline that offloads itself cannot be cancelled once it runs",
          "[actors][enable]") {
  wanted_pipeline run;
  REQUIRE(run.enable(run.first, whole));
  const auto id = run.first.begin_request();
  REQUIRE(id);

  CHECK(run.first.cancel_request(*id).error().code == errc::unsupported);

  CHECK(run.first.end_request());
}

} // namespace
} // namespace ferry
