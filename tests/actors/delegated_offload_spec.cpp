// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/staged_run.hpp"

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using test::whole;

TEST_CASE("a pipeline with an offload of its own is left to it", "[actors][staging]") {
  test::fake_model_offload own;
  const auto pipeline = test::staged_model();
  pipeline->offloads_itself(own);
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());
  auto config = test::compact(whole);
  config.pin_memory = false;

  REQUIRE(subject.enable(pipeline, config));
  CHECK(own.request->components == config.components);
  CHECK_FALSE(own.request->pin_memory);
  CHECK(subject.state()->enabled);
  CHECK(pipeline->mutations().empty());
  CHECK(subject.begin_request());
  std::thread other([&] { CHECK(subject.begin_request()); });
  while (subject.state()->requests_waiting == 0)
    std::this_thread::yield();
  CHECK(subject.end_request());
  other.join();
  CHECK(subject.end_request());
  REQUIRE(subject.disable());

  CHECK(own.calls == std::vector<std::string>{"enable", "disable"});
  REQUIRE(subject.enable(pipeline, test::legacy(test::model_level)));
  CHECK_FALSE(own.request->components.has_value());
}

TEST_CASE("a pipeline's own offload that fails is taken back, with the first failure",
          "[actors][staging]") {
  test::fake_model_offload own;
  own.fail_enable = own.fail_disable = true;
  const auto pipeline = test::staged_model();
  pipeline->offloads_itself(own);
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());

  const auto enabled = subject.enable(pipeline, test::compact(whole));

  REQUIRE_FALSE(enabled);
  CHECK_THAT(enabled.error().detail, Catch::Contains("enable was told to fail"));
  CHECK(own.calls == std::vector<std::string>{"enable", "disable"});
  CHECK_FALSE(subject.state()->enabled);
}

TEST_CASE("a pipeline's own offload that cannot be undone stays and is tried again",
          "[actors][staging]") {
  test::fake_model_offload own;
  own.fail_disable = true;
  const auto pipeline = test::staged_model();
  pipeline->offloads_itself(own);
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());
  REQUIRE(subject.enable(pipeline, test::compact(whole)));

  CHECK(subject.disable().error().code == errc::incomplete);
  own.fail_disable = false;
  CHECK(subject.disable());
}

} // namespace
} // namespace ferry
