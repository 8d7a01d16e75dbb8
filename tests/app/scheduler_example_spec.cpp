// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace ferry {
namespace {

using nlohmann::json;

std::string data(const std::string& name) {
  return (std::filesystem::path(FERRY_TEST_DATA) / name).string();
}

std::string digest_alone(const std::string& checkpoint) {
  const auto done = test::run_program({"run", checkpoint, "--device", "host", "--report", "-"});
  REQUIRE(done.code == 0);
  return json::parse(done.out)["output_sha256"];
}

TEST_CASE("scheduler example: two pipelines take turns in memory for one", "[app][example]") {
  const auto wan = data("wan-tiny");
  const auto flux = data("flux-tiny");

  const auto done =
      test::run({FERRY_SCHEDULER, wan, flux, "--device-memory", "1MB", "--requests", "4"});

  INFO(done.err);
  CHECK(done.code == 0);
  const auto made_by_wan = wan + ": " + digest_alone(wan) + "\n";
  const auto made_by_flux = flux + ": " + digest_alone(flux) + "\n";
  // Two warm-ups and three requests run, each but the first in the place of the one before.
  CHECK(done.out ==
        "request 0, " + made_by_wan + "request 1, " + made_by_flux + "request 2, " + made_by_wan +
            "request 3, " + flux + ": cancelled: cancelled while it waited\nswaps: 4\n" + wan +
            ": enabled, 0 copies in flight\n" + flux + ": disabled, 0 copies in flight\n");
}

} // namespace
} // namespace ferry
