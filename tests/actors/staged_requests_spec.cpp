// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/staged_run.hpp"

#include <cstdint>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using test::staged_run;

TEST_CASE("requests run one after another, in the order they were asked for", "[actors][staging]") {
  staged_run run;
  const auto first = run.subject.begin_request();
  REQUIRE(first);
  std::vector<int> order;
  std::thread other([&] {
    if (run.subject.begin_request()) {
      order.push_back(2);
      if (!run.subject.end_request())
        order.push_back(-1);
    }
  });
  while (run.subject.state().value().requests_waiting == 0)
    std::this_thread::yield();
  order.push_back(1);

  REQUIRE(run.subject.end_request());

  other.join();
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("a cancelled request fails at its next component and leaves nothing behind",
          "[actors][staging]") {
  staged_run run;
  const auto running = run.subject.begin_request();
  REQUIRE(running);
  REQUIRE(run.call("text_encoder"));

  REQUIRE(run.subject.cancel_request(*running));
  CHECK_THROWS_WITH(run.call("transformer"), Catch::Contains("cancelled"));
  REQUIRE(run.subject.end_request());

  CHECK_FALSE(run.on_device("text_encoder"));
  CHECK(run.request());
  CHECK(run.subject.cancel_request(*running).error().code == errc::not_found);
}

TEST_CASE("a request whose end fails at any device call leaves no component on the device",
          "[actors][staging]") {
  staged_run run;
  auto failed = true;
  std::size_t refused = 0;
  for (std::uint64_t n = 0; failed; ++n) {
    CAPTURE(n);
    REQUIRE(run.subject.begin_request());
    REQUIRE(run.call("transformer"));
    run.gpu->fail_after(n);
    refused += run.subject.end_request() ? 0u : 1u;
    failed = run.gpu->cancel_failure();

    CHECK_FALSE(run.subject.state()->first_failure);
    CHECK_FALSE(run.subject.state()->in_request);
    CHECK_FALSE(run.on_device("transformer"));
  }
  CHECK(refused > 0);
  CHECK(run.request());
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("a failure of the model's thread is the answer to whatever comes after it at once",
          "[actors][staging]") {
  for (int i = 0; i != 20; ++i) {
    staged_run run;
    REQUIRE(run.subject.begin_request());
    run.gpu->inject({.call = device_call::compute});
    CHECK_THROWS_AS(run.call("transformer"), ferry_error);

    CHECK(run.subject.stage_out("transformer").error().code == errc::device_failure);
    CHECK(run.subject.end_request().error().code == errc::device_failure);
    CHECK(run.subject.begin_request().error().code == errc::device_failure);
    REQUIRE(run.subject.disable());
    CHECK(run.ordinary());
  }
}

TEST_CASE("a request that failed need not be ended before a disable", "[actors][staging]") {
  for (int i = 0; i != 20; ++i) {
    staged_run run;
    REQUIRE(run.subject.begin_request());
    run.gpu->inject({.call = device_call::compute});
    CHECK_THROWS_AS(run.call("transformer"), ferry_error);

    REQUIRE(run.subject.disable());
    CHECK(run.ordinary());
  }
}

TEST_CASE("a request that waits can be cancelled", "[actors][staging]") {
  staged_run run;
  const auto id = run.subject.new_request();
  REQUIRE(run.subject.begin_request());
  result<void> second;
  std::thread other([&] { second = run.subject.begin_request(id); });
  while (run.subject.state().value().requests_waiting == 0)
    std::this_thread::yield();

  REQUIRE(run.subject.cancel_request(id));

  other.join();
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::cancelled);
  CHECK(run.subject.end_request());
}

} // namespace
} // namespace ferry
