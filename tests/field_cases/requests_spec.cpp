// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "served_model.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using test::fake_module;
using test::served_model;
using test::whole_components;

std::shared_ptr<sim_device> make_gpu() {
  return std::make_shared<sim_device>(sim_options{});
}

TEST_CASE("a cancelled request runs no other block, and the one that waited for it is right",
          "[field_cases][B64]") {
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(test::both)));
  const auto first = run.subject().begin_request();
  REQUIRE(first);
  result<request_id> second = request_id{};
  std::thread other([&] { second = run.subject().begin_request(); });
  while (run.state().requests_waiting == 0)
    std::this_thread::yield();
  auto went_on = false;

  run.model()->call("transformer.blocks.0",
                    [&](fake_module&) { REQUIRE(run.subject().cancel_request(*first)); });
  CHECK_THROWS_WITH(
      run.model()->call("transformer.blocks.1", [&](fake_module&) { went_on = true; }),
      Catch::Contains("cancelled"));
  REQUIRE(run.subject().end_request());

  other.join();
  REQUIRE(second);
  CHECK_FALSE(went_on);
  CHECK(run.run("text_encoder"));
  CHECK(run.run("transformer"));
  CHECK(run.subject().end_request());
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("what was replaced for a request is put back to the bit, also if the request failed",
          "[field_cases][B43]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  served_model run{make_gpu()};
  REQUIRE(run.enable(test::compact(mode)));
  const auto before = run.subject().read_weights("transformer", {});
  REQUIRE(before);
  auto other = before->values.at(3);
  const auto bytes = std::make_shared<std::vector<std::byte>>(other.bytes.size(), std::byte{99});
  other.bytes = *bytes;
  other.owner = bytes;

  REQUIRE(run.subject().update_weights({"transformer", {other}}));
  CHECK_FALSE(run.request());
  REQUIRE(run.subject().begin_request());
  CHECK_THROWS_AS(run.model()->call("transformer.blocks.0",
                                    [](fake_module&) { throw std::runtime_error("no luck"); }),
                  std::runtime_error);
  REQUIRE(run.subject().end_request());
  REQUIRE(run.subject().update_weights({"transformer", before->values}));

  CHECK(run.request());
  CHECK(run.subject().disable());
  CHECK(run.ordinary());
}

} // namespace
} // namespace ferry
