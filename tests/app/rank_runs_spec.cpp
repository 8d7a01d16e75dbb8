// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using words = std::vector<std::string>;

/// What ranks gather.
enum class sharing : std::uint8_t { nothing, the_denoiser, all };

std::string config_of(sharing what) {
  switch (what) {
    case sharing::all:
      return R"({"mode":"layer","components":["dit","text_encoder"],
          "layer_options":{"dit":{"weight_transfer":"allgather"},
                           "text_encoder":{"weight_transfer":"allgather"}}})";
    case sharing::the_denoiser:
      return R"({"mode":"layer","components":["dit","text_encoder"],
          "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
    default:
      return R"({"mode":"layer","components":["dit","text_encoder"]})";
  }
}

struct ranked_run {
  std::string model;
  std::string ranks;
  sharing what;
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

bool is_encoder(const std::string& path) {
  return path.starts_with("text_encoder");
}

/// Returns the bytes that a rank copies to its device when it sends one part of `ranks` of all that
/// is gathered, once it has run its own blocks `times`.
double bytes_to_copy(const json& report, const ranked_run& run, double times) {
  auto resident = report["total_weight_bytes"].get<double>();
  double own = 0;
  for (const auto& [path, component] : report["components"].items()) {
    const auto streamed = component["streamed_bytes"].get<double>();
    resident -= streamed;
    if (run.what == sharing::the_denoiser && is_encoder(path))
      own += streamed;
  }
  return resident + times * own + report["allgather_bytes"].get<double>() / std::stod(run.ranks);
}

/// Runs the ranks and checks that each makes the bytes of the resident run and does its part.
void check_run(const ranked_run& run) {
  CAPTURE(run.model, run.ranks, static_cast<int>(run.what), run.chunked, run.device);
  const test::scratch_directory scratch;
  const auto model = run.chunked ? larger(run.model, scratch.path())
                                 : (fs::path(FERRY_TEST_DATA) / run.model).string();
  words line{"run",      model,      "--ranks",           run.ranks, "--device",
             run.device, "--config", config_of(run.what), "--steps", "2",
             "--size",   "32x32",    "--frames",          "1",       "--compare-resident",
             "--report", "-"};
  if (run.chunked)
    line.insert(line.end(), {"--dlo-chunk-size-mb", "1"});

  const auto done = test::run_program(line);

  INFO(done.err);
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  REQUIRE(report["ranks_report"].size() == std::stoul(run.ranks));
  const auto gathers = run.what != sharing::nothing;
  // With guidance Wan encodes two prompts. A ring may have its first blocks on their way again.
  const auto encodes = run.model == "flux-tiny" ? 1 : 2;
  for (const auto& each : report["ranks_report"]) {
    CHECK(each["output_equals_resident"] == true);
    CHECK(each["output_sha256"] == report["output_sha256"]);
    CHECK(each["races"] == 0);
    CHECK(each["d2h_bytes"] == 0);
    CHECK(each["tickets_in_flight"] == 0);
    // Parts of equal length: on a device that pins them, and by what is copied of them.
    CHECK(each["pinned_bytes"] == report["pinned_bytes"]);
    CHECK(each["collectives"] == report["collectives"]);
    CHECK(each["allgather_bytes"] == report["allgather_bytes"]);
    CHECK((each["collectives"] > 0) == gathers);
    if (gathers) {
      const auto copied = each["h2d_bytes"].get<double>();
      CHECK(copied == Approx(report["h2d_bytes"].get<double>()).epsilon(0.02));
      CHECK(copied > 0.98 * bytes_to_copy(each, run, encodes));
      CHECK(copied < 1.02 * bytes_to_copy(each, run, encodes + 1));
    }
  }
  // Blocks of several chunks take more gathers than blocks are fetched.
  if (run.what == sharing::all)
    CHECK((report["collectives"] >
           report["prefetches"].get<int>() + report["blocking_loads"].get<int>()) == run.chunked);
}

// In each table every two values of different columns meet in a row.

TEST_CASE("however many ranks gather everything or nothing on which device, each makes the bytes "
          "of the resident run",
          "[app][run][ranks]") {
  check_run(GENERATE(ranked_run{"wan-tiny", "3", sharing::nothing, true, "host"},
                     ranked_run{"wan-tiny", "4", sharing::all, true, "sim"},
                     ranked_run{"wan-dual-tiny", "2", sharing::nothing, true, "sim"},
                     ranked_run{"wan-dual-tiny", "3", sharing::all, false, "sim"},
                     ranked_run{"wan-dual-tiny", "4", sharing::nothing, false, "host"},
                     ranked_run{"flux-tiny", "2", sharing::all, true, "host"},
                     ranked_run{"flux-tiny", "3", sharing::nothing, false, "sim"},
                     ranked_run{"wan-tiny", "2", sharing::nothing, false, "host"},
                     ranked_run{"flux-tiny", "4", sharing::all, false, "sim"}));
}

TEST_CASE(
    "however many ranks gather the denoiser and keep an encoder each, each makes the bytes of "
    "the resident run: Wan",
    "[app][run][ranks]") {
  check_run(GENERATE(ranked_run{"wan-tiny", "2", sharing::the_denoiser, false, "sim"},
                     ranked_run{"wan-tiny", "3", sharing::the_denoiser, true, "host"},
                     ranked_run{"wan-tiny", "4", sharing::the_denoiser, true, "sim"}));
}

TEST_CASE(
    "however many ranks gather the denoiser and keep an encoder each, each makes the bytes of "
    "the resident run: Wan with two denoisers",
    "[app][run][ranks]") {
  check_run(GENERATE(ranked_run{"wan-dual-tiny", "2", sharing::the_denoiser, true, "host"},
                     ranked_run{"wan-dual-tiny", "3", sharing::the_denoiser, false, "sim"},
                     ranked_run{"wan-dual-tiny", "4", sharing::the_denoiser, false, "host"}));
}

TEST_CASE(
    "however many ranks gather the denoiser and keep an encoder each, each makes the bytes of "
    "the resident run: FLUX",
    "[app][run][ranks]") {
  check_run(GENERATE(ranked_run{"flux-tiny", "2", sharing::the_denoiser, true, "sim"},
                     ranked_run{"flux-tiny", "3", sharing::the_denoiser, false, "host"},
                     ranked_run{"flux-tiny", "4", sharing::the_denoiser, false, "sim"}));
}

} // namespace
} // namespace ferry
