// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using words = std::vector<std::string>;

constexpr auto gathered = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"},
                     "text_encoder":{"weight_transfer":"allgather"}}})";
constexpr auto rank_local = R"({"mode":"layer","components":["dit","text_encoder"]})";

struct ranked_run {
  std::string model;
  std::string ranks;
  bool gathers;
  bool chunked;
  std::string device;
};

/// Returns a checkpoint whose blocks are of some MiB, for chunks of one.
std::string larger(const std::string& model, const fs::path& into) {
  const auto path = (into / model).string();
  words making{"checkpoint", model == "flux-tiny" ? "flux" : "wan", path, "--blocks", "2"};
  if (model == "wan-dual-tiny")
    making.insert(making.end(), {"--denoisers", "2"});
  REQUIRE(test::run_program(making).code == 0);
  return path;
}

/// Returns the bytes that a rank copies to its device when it sends one part of `ranks` of all that
/// is gathered.
double bytes_to_copy(const json& report, double ranks) {
  auto resident = report["total_weight_bytes"].get<double>();
  for (const auto& [path, component] : report["components"].items())
    resident -= component["streamed_bytes"].get<double>();
  return resident + report["allgather_bytes"].get<double>() / ranks;
}

TEST_CASE("however many ranks run what on which device, each makes the bytes of the resident run",
          "[app][run][ranks]") {
  // Every two values of different columns meet in a row.
  const auto run = GENERATE(ranked_run{"wan-tiny", "3", false, true, "host"},
                            ranked_run{"wan-tiny", "4", true, true, "sim"},
                            ranked_run{"wan-dual-tiny", "2", false, true, "sim"},
                            ranked_run{"wan-dual-tiny", "3", true, false, "sim"},
                            ranked_run{"wan-dual-tiny", "4", false, false, "host"},
                            ranked_run{"flux-tiny", "2", true, true, "host"},
                            ranked_run{"flux-tiny", "3", false, false, "sim"},
                            ranked_run{"wan-tiny", "2", false, false, "host"},
                            ranked_run{"flux-tiny", "4", true, false, "host"});
  CAPTURE(run.model, run.ranks, run.gathers, run.chunked, run.device);
  const test::scratch_directory scratch;
  const auto model = run.chunked ? larger(run.model, scratch.path())
                                 : (fs::path(FERRY_TEST_DATA) / run.model).string();
  words line{"run",
             model,
             "--ranks",
             run.ranks,
             "--device",
             run.device,
             "--config",
             run.gathers ? gathered : rank_local,
             "--steps",
             "2",
             "--size",
             "32x32",
             "--frames",
             "1",
             "--compare-resident",
             "--report",
             "-"};
  if (run.chunked)
    line.insert(line.end(), {"--dlo-chunk-size-mb", "1"});

  const auto done = test::run_program(line);

  INFO(done.err);
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  REQUIRE(report["ranks_report"].size() == std::stoul(run.ranks));
  for (const auto& each : report["ranks_report"]) {
    CHECK(each["output_equals_resident"] == true);
    CHECK(each["output_sha256"] == report["output_sha256"]);
    CHECK(each["races"] == 0);
    CHECK(each["d2h_bytes"] == 0);
    CHECK(each["tickets_in_flight"] == 0);
    CHECK(each["pinned_bytes"] == report["pinned_bytes"]); // Parts of equal length.
    CHECK(each["collectives"] == report["collectives"]);
    CHECK((each["collectives"] > 0) == run.gathers);
    if (run.gathers)
      CHECK(each["h2d_bytes"].get<double>() ==
            Approx(bytes_to_copy(each, std::stod(run.ranks))).epsilon(0.02));
  }
  // Blocks of several chunks take more gathers than blocks are fetched.
  if (run.gathers)
    CHECK((report["collectives"] >
           report["prefetches"].get<int>() + report["blocking_loads"].get<int>()) == run.chunked);
}

} // namespace
} // namespace ferry
