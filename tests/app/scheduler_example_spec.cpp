// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
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
  CHECK_THAT(done.out, StartsWith("request 0, " + made_by_wan + "request 1, " + made_by_flux +
                                  "request 2, " + made_by_wan + "request 3, " + flux +
                                  ": cancelled: cancelled while it waited\nswaps: 4\n" + wan +
                                  ": enabled, 0 copies in flight\n" + flux +
                                  ": disabled, 0 copies in flight\n"));
  CHECK_THAT(done.out, Contains("\nferry_requests_total 5\n") && Contains("\nferry_enabled 1\n") &&
                           Contains("# TYPE ferry_exposed_wait_seconds_total counter\n") &&
                           Contains("ferry_component_device_bytes{component=\"transformer\"} "));
  CHECK_THAT(done.out, !Contains("ferry_block_uses_total 0\n"));
}

TEST_CASE("scheduler example: what cannot be served ends it with one line and its code",
          "[app][example]") {
  using words = std::vector<std::string>;
  const auto [arguments, expected] = GENERATE(table<words, std::string>({
      {words{}, "CHECKPOINT is required; see ferry_scheduler --help"},
      {{data("wan-tiny"), "--bogus"}, "--bogus"},
      {{data("wan-tiny"), "--requests", "1"}, "'1'; expected an integer from 2 to 1000"},
      {{data("wan-tiny"), "--requests", "two"}, "'two'; expected an integer from 2 to 1000"},
      {{data("wan-tiny"), "--device-memory", "100KiB"}, "wan-tiny: "},
      {{data("wan-tiny"), "--device-memory", "0"}, "out_of_device_memory"},
      {{data("wan-tiny"), "--device-memory", "much"}, "--device-memory: size 'much'"},
      {{data("wan-tiny"), "/no/such/checkpoint"}, "/no/such/checkpoint"},
      {{data("wan-tiny"), "--config", R"({"mode":"module","components":["vae"]})"}, "vae"},
      {{data("wan-tiny"), "--config", "null"}, "--config is 'null', which offloads nothing"},
      {{data("wan-tiny"), "--config", "nope.json"}, "write --config @nope.json"},
      {{data("wan-tiny"), "--config", "@/no/such/file"}, "'/no/such/file', which cannot be read"},
  }));
  words all{FERRY_SCHEDULER};
  all.insert(all.end(), arguments.begin(), arguments.end());

  const auto done = test::run(all);

  CHECK(done.code == 2);
  CHECK(done.out == "");
  CHECK_THAT(done.err, StartsWith("ferry_scheduler: ") && Contains(expected));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("scheduler example: a pipeline that fails after another has run ends it with 1",
          "[app][example]") {
  const auto done = test::run({FERRY_SCHEDULER, data("flux-tiny"), data("wan-tiny"),
                               "--device-memory", "700KB", "--requests", "2"});

  CHECK(done.code == 1);
  CHECK_THAT(done.err, StartsWith("ferry_scheduler: ") && Contains("wan-tiny: "));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("scheduler example: the configuration may be in a file", "[app][example]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("c.json", R"({"mode":"layer","components":["dit"]})").string();

  const auto done =
      test::run({FERRY_SCHEDULER, data("wan-tiny"), "--requests", "2", "--config", "@" + file});

  INFO(done.err);
  CHECK(done.code == 0);
}

TEST_CASE("scheduler example: its help names what an option takes", "[app][example]") {
  const auto done = test::run({FERRY_SCHEDULER, "--help"});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("--requests N") && Contains("--device-memory SIZE"));
  CHECK_THAT(done.out, !Contains(" TEXT") && !Contains(":INT"));
}

} // namespace
} // namespace ferry
