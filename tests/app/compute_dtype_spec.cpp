// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/compute_dtype.hpp"

#include "report.hpp"
#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ferry {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using words = std::vector<std::string>;

constexpr auto by_blocks = R"({"mode":"layer","components":["dit","text_encoder"]})";
constexpr auto by_component = R"({"mode":"module","components":["dit","text_encoder"]})";
constexpr auto gathered = R"({"mode":"layer","components":["dit"],
    "layer_options":{"dit":{"weight_transfer":"allgather"}}})";

/// Writes a small checkpoint of bf16 weights.
std::string bf16_checkpoint(const std::string& family, const fs::path& into) {
  const auto path = (into / family).string();
  REQUIRE(test::run_program({"checkpoint", family, path, "--blocks", "2", "--hidden", "64",
                             "--head-dim", "32", "--text-hidden", "32"})
              .code == 0);
  return path;
}

json report_of(const std::string& model, const words& more) {
  words line{"run", model, "--steps", "2", "--compare-resident", "--report", "-"};
  line.insert(line.end(), more.begin(), more.end());
  const auto ran = test::run_program(line);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  return json::parse(ran.out);
}

TEST_CASE("a run in another type than the checkpoint's makes the bytes of the resident run in it",
          "[app][run][conversion]") {
  const std::string family = GENERATE("wan", "flux");
  const std::string device = GENERATE("host", "sim");
  const std::string config = GENERATE(by_blocks, by_component);
  CAPTURE(family, device, config);
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint(family, scratch.path());

  const auto wide =
      report_of(model, {"--device", device, "--config", config, "--compute-dtype", "f32"});
  const auto as_stored = report_of(model, {"--device", device, "--config", config});

  CHECK(wide["output_equals_resident"] == true);
  CHECK(wide["compute_dtype_reason"].is_null());
  CHECK(wide["compute_dtype"] == "f32");
  CHECK(as_stored["compute_dtype"] == "bf16");
  CHECK(wide["races"] == 0);
  CHECK(wide["d2h_bytes"] == 0);
  CHECK(wide["output_sha256"] != as_stored["output_sha256"]);
  CHECK(wide["h2d_bytes"] <= as_stored["h2d_bytes"]);
  CHECK(wide["first_step_end_s"] > 0);
  CHECK(wide["resident_step_s"].size() ==
        (device == "host" ? 2 : 0)); // Empty where time is virtual.
}

TEST_CASE("a checkpoint of f32 is narrowed on its way, as that of the resident run",
          "[app][run][conversion]") {
  const std::string name = GENERATE("wan-tiny", "flux-tiny");
  const auto model = (fs::path(FERRY_TEST_DATA) / name).string();

  const auto narrow =
      report_of(model, {"--device", "sim", "--config", by_blocks, "--compute-dtype", "bf16"});
  const auto as_stored = report_of(model, {"--device", "sim", "--config", by_blocks});

  CHECK(narrow["output_equals_resident"] == true);
  CHECK(narrow["races"] == 0);
  CHECK(narrow["output_sha256"] != as_stored["output_sha256"]);
  CHECK(narrow["slot_bytes"] < as_stored["slot_bytes"]);
}

TEST_CASE("without an offload a run computes in the type that it was asked for",
          "[app][run][conversion]") {
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint("wan", scratch.path());

  const auto resident = report_of(model, {"--device", "host", "--compute-dtype", "f32"});
  const auto offloaded =
      report_of(model, {"--device", "host", "--config", by_blocks, "--compute-dtype", "f32"});

  CHECK(resident["strategy"] == "none");
  CHECK(resident["output_sha256"] == offloaded["output_sha256"]);
}

TEST_CASE("table and report say how many blocks are computed with in place",
          "[app][run][conversion]") {
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint("wan", scratch.path());

  const auto as_stored = report_of(model, {"--device", "host", "--config", by_blocks});
  const auto wide =
      report_of(model, {"--device", "host", "--config", by_blocks, "--compute-dtype", "f32"});
  const auto table_of = [&](const std::string& type) {
    return test::run_program({"run", model, "--device", "host", "--config", by_blocks, "--steps",
                              "1", "--compute-dtype", type})
        .out;
  };

  const auto& components = as_stored["components"];
  CHECK(components["transformer"]["blocks_in_place"] == 2);
  CHECK(components["text_encoder"]["blocks_in_place"] == components["text_encoder"]["blocks"]);
  CHECK(wide["components"]["transformer"]["blocks_in_place"] == 0);
  const auto all = std::to_string(2 + components["text_encoder"]["blocks"].get<int>());
  CHECK_THAT(table_of("bf16"),
             Catch::Contains("computed with in place     " + all + " of " + all + " blocks\n"));
  CHECK_THAT(table_of("f32"),
             Catch::Contains("computed with in place     0 of " + all + " blocks\n"));
}

TEST_CASE("the median of an even number of steps is between the two in the middle", "[app][run]") {
  run_report report;
  report.step_s = {0.4, 0.1, 0.2, 0.3};
  CHECK_THAT(to_table(report), Catch::Contains("step (median)              250.00 ms"));
  report.step_s = {0.4, 0.1, 0.2};
  CHECK_THAT(to_table(report), Catch::Contains("step (median)              200.00 ms"));
}

TEST_CASE("auto says which type it took and why", "[app][run][conversion]") {
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint("wan", scratch.path());
  const auto ran = test::run_program({"run", model, "--steps", "1", "--device", "host", "--config",
                                      by_blocks, "--compute-dtype", "auto"});
  REQUIRE(ran.code == 0);
  CHECK_THAT(ran.out, Catch::Contains("computes in") && Catch::Contains("ms in f32") &&
                          Catch::Contains("ms in bf16"));
}

TEST_CASE("a device whose copies do not convert takes weights as they are stored",
          "[app][conversion]") {
  const device_traits plain{.name = "cuda:0", .converts = false};

  const auto wide = choose_compute_dtype("f32", plain, dtype::bf16);
  const auto same = choose_compute_dtype("bf16", plain, dtype::bf16);
  const auto chosen = choose_compute_dtype("auto", plain, dtype::bf16);

  REQUIRE_FALSE(wide);
  CHECK(wide.error().code == errc::unsupported);
  CHECK(wide.error().detail ==
        "--compute-dtype is f32, and cuda:0 takes weights as they are stored; leave it out");
  CHECK(same);
  REQUIRE(chosen);
  CHECK(to_string(*chosen) == "bf16");
  CHECK(chosen->reason == "cuda:0 takes weights as they are stored");
}

TEST_CASE("auto times the type of the checkpoint, and never narrows", "[app][run][conversion]") {
  const auto [stored, reason] = GENERATE(table<std::string, std::string>(
      {{"f16", "ms in f16"}, {"f32", "weights are in f32, and auto narrows nothing"}}));
  CAPTURE(stored);
  const test::scratch_directory scratch;
  const auto model = (scratch.path() / "wan").string();
  REQUIRE(test::run_program({"checkpoint", "wan", model, "--blocks", "2", "--hidden", "64",
                             "--head-dim", "32", "--text-hidden", "32", "--dtype", stored})
              .code == 0);
  const words as_auto{"--device", "host", "--compute-dtype", "auto"};

  words run{"run", model, "--steps", "1", "--config", by_blocks};
  run.insert(run.end(), as_auto.begin(), as_auto.end());
  words plan{"plan", model};
  plan.insert(plan.end(), as_auto.begin(), as_auto.end());

  CHECK_THAT(test::run_program(run).out, Catch::Contains(reason));
  CHECK_THAT(test::run_program(plan).out, Catch::Contains(reason));
  CHECK_THAT(test::run_program(run).out, !Catch::Contains("ms in bf16"));
}

TEST_CASE("auto takes what ranks can gather", "[app][run][conversion]") {
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint("wan", scratch.path());
  const auto ran = report_of(
      model, {"--ranks", "2", "--device", "host", "--config", gathered, "--compute-dtype", "auto"});
  CHECK(ran["compute_dtype"] == "bf16");
  CHECK(ran["compute_dtype_reason"] == "ranks gather weights as they are stored");
}

TEST_CASE("a checkpoint that is cut short under a run ends it with the file's name",
          "[app][run][conversion]") {
  const auto how = GENERATE(words{"--config", by_blocks},
                            words{"--config", by_blocks, "--compute-dtype", "bf16"});
  CAPTURE(how);
  const test::scratch_directory scratch;
  const auto model = scratch.path() / "wan";
  fs::copy(fs::path(FERRY_TEST_DATA) / "wan-tiny", model, fs::copy_options::recursive);
  words line{"run", model.string(), "--device", "host", "--steps", "1000", "--log-level", "info"};
  line.insert(line.end(), how.begin(), how.end());
  test::running_program running(line);
  running.wait_until_it_says("begin request");

  std::string cut;
  for (const auto& each : fs::directory_iterator(model / "transformer"))
    if (each.path().extension() == ".safetensors") {
      cut = each.path().string();
      fs::resize_file(cut, fs::file_size(cut) / 2);
    }
  const auto ended = running.finish();

  CHECK(ended.code == 1);
  CHECK_THAT(ended.err, Catch::Contains("ferry: io_failure: '" + (model / "transformer").string()));
  CHECK_THAT(ended.err, Catch::Contains("was changed while it was in use"));
  CHECK_THAT(ended.err, Catch::Contains("(block transformer.blocks."));
  for (const auto* noise : {"device_", "abandon", "deadline", "drain", "incomplete"})
    CHECK_THAT(ended.err, !Catch::Contains(noise));
}

TEST_CASE("ranks that gather weights in another type are refused before anything moves",
          "[app][run][conversion]") {
  const test::scratch_directory scratch;
  const auto model = bf16_checkpoint("wan", scratch.path());
  const auto ran = test::run_program({"run", model, "--ranks", "2", "--device", "host", "--config",
                                      gathered, "--compute-dtype", "f32"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, Catch::Contains("--compute-dtype is f32, and ranks gather weights as they "
                                      "are stored, here in bf16; leave it out, or take"));
}

} // namespace
} // namespace ferry
