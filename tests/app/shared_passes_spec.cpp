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

// `ferry run` where passes share what is fetched for them.
namespace ferry {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::read_text;
using test::run_program;
using words = std::vector<std::string>;

const std::string layer = R"({"mode":"layer","components":["dit"]})";
const std::string some_resident =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":2}}})";
const std::string gathered =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"weight_transfer":"allgather"}}})";

words operator+(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string data(const std::string& name) {
  return (std::filesystem::path(FERRY_TEST_DATA) / name).string();
}

json report_of(const words& line) {
  const auto done = run_program(line + words{"--report", "-"});
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  return json::parse(done.out);
}

double loads_of(const json& report) {
  return report["prefetches"].get<double>() + report["blocking_loads"].get<double>();
}

TEST_CASE("the branches of guidance share each fetch, with the bytes of one after the other",
          "[app][passes]") {
  const auto [checkpoint, how] = GENERATE(table<std::string, words>(
      {{"wan-tiny", {"--device", "sim", "--config", layer}},
       {"wan-tiny", {"--device", "host", "--config", some_resident}},
       {"wan-tiny", {"--device", "sim", "--config", gathered, "--ranks", "2"}},
       {"wan-dual-tiny", {"--device", "sim", "--config", some_resident}}}));
  CAPTURE(checkpoint, how);
  const auto line =
      words{"run", data(checkpoint), "--size", "32x32", "--frames", "1", "--compare-resident"} +
      how;

  const auto shared = report_of(line);
  const auto apart = report_of(line + words{"--passes-per-fetch", "1"});

  CHECK(shared["passes_per_fetch"] == 2);
  CHECK(apart["passes_per_fetch"] == 1);
  CHECK(shared["output_sha256"] == apart["output_sha256"]);
  CHECK(shared["output_equals_resident"] == true);
  CHECK(shared["h2d_bytes"] < apart["h2d_bytes"]);
  CHECK(loads_of(shared) <= 0.6 * loads_of(apart));
  CHECK(shared["races"] == 0);
  CHECK(shared["tickets_in_flight"] == 0);
}

TEST_CASE("a step whose branches share takes the link's time once", "[app][passes]") {
  const words line = {"run",   data("wan-tiny"),         "--device", "sim", "--config", layer,
                      "--sim", "link=20MB/s,compute=1ms"};
  const auto step_of = [&](const words& more) {
    auto steps = report_of(line + more)["step_s"].get<std::vector<double>>();
    return steps.back();
  };

  const auto shared = step_of({});

  CHECK(step_of({"--passes-per-fetch", "1"}) == Approx(2 * shared).epsilon(0.05));
}

TEST_CASE("requests of a file that share fetches end as alone, and one that fails leaves them",
          "[app][passes]") {
  const auto [checkpoint, device, config] =
      GENERATE(table<std::string, std::string, std::string>({{"wan-tiny", "sim", some_resident},
                                                             {"wan-tiny", "host", layer},
                                                             {"flux-tiny", "sim", layer}}));
  CAPTURE(checkpoint, device);
  const test::scratch_directory scratch;
  // Of three, one, one and two steps. The third ends in no picture.
  const auto file = scratch
                        .write("r.jsonl", R"({"steps":3,"size":"32x32","frames":1}
{"steps":1,"seed":5,"size":"48x32","frames":1}
{"steps":1,"guidance":1e38,"size":"32x32","frames":1}
{"steps":2,"seed":9,"prompt_ids":[4,4],"size":"32x32","frames":1}
)")
                        .string();
  const auto out = scratch.path() / "out";

  const auto done = run_program({"run", data(checkpoint), "--requests", file, "--device", device,
                                 "--config", config, "--passes-per-fetch", "64", "--output",
                                 out.string(), "--compare-resident", "--report", "-"});

  CAPTURE(done.err);
  CHECK(done.code == 1);
  CHECK_THAT(done.err, Contains(file + ":3: "));
  const auto report = json::parse(done.out);
  CHECK(report["requests"] == 3);
  CHECK(report["steps"] == 3);
  CHECK(report["output_equals_resident"] == true);
  // In each step of those that have it, the one that fails among them.
  const auto passes = (4.0 + 2 + 1) / 3 * (checkpoint == "wan-tiny" ? 2 : 1);
  CHECK(report["passes_per_fetch"].get<double>() == Approx(passes));
  CHECK(report["races"] == 0);
  CHECK(report["tickets_in_flight"] == 0);
}

TEST_CASE("requests run one after another unless their passes are to share", "[app][passes]") {
  const test::scratch_directory scratch;
  const auto file = scratch
                        .write("r.jsonl", R"({"steps":2,"guidance":1,"size":"32x32","frames":1}
{"steps":2,"guidance":1,"size":"32x32","frames":1}
{"steps":2,"size":"32x32","frames":1}
)")
                        .string();
  const words line = {"run",      data("wan-tiny"), "--requests", file,
                      "--device", "host",           "--config",   layer};

  const auto by_default = report_of(line);
  const auto in_pairs = report_of(line + words{"--passes-per-fetch", "2"});

  CHECK(by_default["steps"] == 6);
  CHECK(in_pairs["steps"] == 4);
  CHECK(in_pairs["passes_per_fetch"] == 2);
  CHECK(by_default["output_sha256"] == in_pairs["output_sha256"]);
}

TEST_CASE("a number of passes that is none is refused", "[app][passes]") {
  const auto* number = GENERATE("0", "65", "-1", "many");

  const auto done = run_program({"run", data("wan-tiny"), "--passes-per-fetch", number});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("--passes-per-fetch"));
}

} // namespace
} // namespace ferry
