// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/safetensors.hpp>

#include "png_file.hpp"
#include "read_png.hpp"
#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::read_text;
using test::run_program;

const std::string layer = R"({"mode":"layer","components":["dit","text_encoder"]})";
const std::string headed = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"resident_layers":2}}})";
const std::string module = R"({"mode":"module","components":["dit","text_encoder"]})";

std::string data(const std::string& name) {
  return (std::filesystem::path(FERRY_TEST_DATA) / name).string();
}

std::set<std::string> options_in(const std::string& text) {
  static const std::regex option("--[a-z][a-z-]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), option),
          std::sregex_token_iterator()};
}

std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

/// One of the frames that a reference file holds as `[1, 3, frames, height, width]`.
std::vector<float> planes_of_frame(const std::string& path, std::size_t index) {
  const auto file = safetensors_file::open(path).value();
  const auto* stored = file->find("frames");
  REQUIRE(stored);
  const auto frames = static_cast<std::size_t>(stored->shape[2]);
  const auto area = static_cast<std::size_t>(stored->shape[3] * stored->shape[4]);
  std::vector<float> planes(3 * area);
  for (std::size_t colour = 0; colour < 3; ++colour)
    std::memcpy(planes.data() + colour * area,
                stored->bytes.data() + (colour * frames + index) * area * sizeof(float),
                area * sizeof(float));
  return planes;
}

/// Runs every model under every strategy.
void check_every_run_on(const std::string& device) {
  const auto [checkpoint, steps] = GENERATE(
      table<std::string, std::size_t>({{"wan-tiny", 4}, {"wan-dual-tiny", 4}, {"flux-tiny", 3}}));
  const auto [config, strategy] = GENERATE(table<std::string, std::string>(
      {{layer, "layer_wise"}, {headed, "distributed_layer_wise"}, {module, "model_level"}}));
  CAPTURE(checkpoint, config, device);

  const auto done = run_program({"run", data(checkpoint), "--reference",
                                 data(checkpoint) + "/reference.safetensors", "--config", config,
                                 "--device", device, "--compare-resident", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["strategy"] == strategy);
  CHECK(report["reference_max_abs_error"] < 1e-3);
  CHECK(report["output_equals_resident"] == true);
  CHECK(report["races"] == 0);
  CHECK(report["d2h_bytes"] == 0);
  CHECK(report["tickets_in_flight"] == 0);
  CHECK(report["device_allocations_after_warmup"] == 0);
  CHECK(report["blocking_loads"] <= 3);
  CHECK(report["step_s"].size() == steps);
  CHECK(report["wall_s"] > 0);
}

TEST_CASE("an offloaded run on the simulated device agrees with the reference and the resident run",
          "[app][run]") {
  check_every_run_on("sim");
}

TEST_CASE("an offloaded run on the host agrees with the reference and the resident run",
          "[app][run]") {
  check_every_run_on("host");
}

TEST_CASE("weights that may not be pinned stay in the checkpoint and are staged within the budget",
          "[app][run]") {
  const auto [checkpoint, config, gibibytes] = GENERATE(table<std::string, std::string, double>(
      {{"wan-tiny", layer, 0.0006}, {"flux-tiny", layer, 0.0006}, {"wan-tiny", headed, 0.0009}}));
  CAPTURE(checkpoint, config);

  const auto done =
      run_program({"run", data(checkpoint), "--config", config, "--device", "sim",
                   "--dlo-pin-budget-gb", std::to_string(gibibytes), "--dlo-pin-failure-policy",
                   "whole_block_fallback", "--compare-resident", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["staged_stores"] > 2);
  CHECK(report["pinned_bytes"] > 0);
  CHECK(report["pinned_bytes"] < gibibytes * 1073741824.0);
  CHECK(report["output_equals_resident"] == true);
  CHECK(report["races"] == 0);
  CHECK(report["tickets_in_flight"] == 0);
}

TEST_CASE("both block lists of a denoiser are streamed, and both encoders", "[app][run]") {
  const auto done = run_program(
      {"run", data("flux-tiny"), "--config", layer, "--device", "sim", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto components = json::parse(done.out)["components"];
  CHECK(components["transformer"]["blocks"] == 3 + 5);
  CHECK(components["text_encoder"]["blocks"] == 3);
  CHECK(components["text_encoder_2"]["blocks"] == 4);
  CHECK(components["vae"]["blocks"] == 0);
}

TEST_CASE("a run with one kind of component selected leaves the other in place", "[app][run]") {
  const auto component = GENERATE(as<std::string>(), "dit", "text_encoder");
  const auto device = GENERATE("sim", "host");
  const auto config = R"({"mode":"layer","components":[")" + component + "\"]}";

  const auto done = run_program({"run", data("flux-tiny"), "--reference",
                                 data("flux-tiny") + "/reference.safetensors", "--config", config,
                                 "--device", device, "--compare-resident", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["output_equals_resident"] == true);
  CHECK(report["components"]["transformer"]["selected"] == (component == "dit"));
  CHECK(report["components"]["text_encoder_2"]["selected"] == (component == "text_encoder"));
}

TEST_CASE("the second encoder takes ids of its own", "[app][run]") {
  const auto digest = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{"run", data("flux-tiny"), "--device", "sim",      "--steps",
                                 "1",   "--prompt-ids",    "3,4",      "--report", "-"};
    all.insert(all.end(), more.begin(), more.end());
    const auto done = run_program(all);
    REQUIRE(done.code == 0);
    return json::parse(done.out)["output_sha256"];
  };

  const auto shared = digest({});

  CHECK(digest({"--second-prompt-ids", "3,4"}) == shared);
  CHECK(digest({"--second-prompt-ids", "3,5"}) != shared);
}

TEST_CASE("a run on the simulated device takes the same virtual time every time", "[app][run]") {
  const auto once = [] {
    const auto done =
        run_program({"run", data("wan-tiny"), "--config", layer, "--device", "sim", "--sim",
                     "link=1MB/s,compute=2ms,jitter=0.3,seed=5", "--steps", "2", "--report", "-"});
    REQUIRE(done.code == 0);
    auto report = json::parse(done.out);
    return json{report["step_s"], report["exposed_wait_s"], report["output_sha256"]};
  };

  const auto first = once();

  CHECK(first[1] > 0);
  CHECK(once() == first);
}

TEST_CASE("a run leaves its latents, its pictures and a trace that can be read", "[app][run]") {
  const test::scratch_directory scratch;
  const auto out = scratch.path() / "out";
  const auto trace = scratch.path() / "trace.json";

  const auto done =
      run_program({"run", data("wan-tiny"), "--config", layer, "--device", "sim", "--steps", "1",
                   "--frames", "5", "--output", out.string(), "--trace", trace.string()});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("peak on the device") && Contains("blocking loads"));
  CHECK(std::filesystem::file_size(out / "latents.safetensors") > 1000);
  CHECK(names_in(out) == std::set<std::string>{"frame-000.png", "frame-001.png", "frame-002.png",
                                               "frame-003.png", "frame-004.png",
                                               "latents.safetensors"});
  std::set<std::string> phases;
  const auto whole = json::parse(read_text(trace));
  for (const auto& event : whole["traceEvents"])
    phases.insert(event["ph"]);
  CHECK(phases == std::set<std::string>{"M", "X", "i", "C", "s", "t", "f"});
}

TEST_CASE("a trace of a run says of its waits what the report says", "[app][run]") {
  const test::scratch_directory scratch;
  const auto trace = scratch.path() / "trace.json";
  const auto done = run_program({"run", data("wan-tiny"), "--config", layer, "--device", "sim",
                                 "--sim", "link=1GB/s,compute=2ms", "--steps", "2", "--trace",
                                 trace.string(), "--report", "-"});
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);

  const auto shown = run_program({"trace", trace.string(), "--json"});

  REQUIRE(shown.code == 0);
  const auto told = json::parse(shown.out);
  CHECK(told["complete"] == true);
  CHECK(told["dropped_spans"] == 0);
  CHECK(told["steps"] == 2);
  CHECK(told["exposed_wait_s"].get<double>() ==
        Approx(report["exposed_wait_s"].get<double>()).margin(1e-9));
  CHECK(told["overlap_efficiency"].get<double>() ==
        Approx(report["overlap_efficiency"].get<double>()));
  CHECK(told["late_blocks"] > 0);
  for (const auto& late : told["late"])
    CHECK(late["cause"] != "not_recorded");
}

TEST_CASE(
    "a trace of several requests has the warm-up, which does not count, and a cause for every "
    "late block",
    "[app][run]") {
  const std::string checkpoint = GENERATE("wan-tiny", "flux-tiny");
  const test::scratch_directory scratch;
  const auto trace = scratch.path() / "trace.json";
  const auto requests = scratch.path() / "requests.jsonl";
  std::ofstream(requests) << "{\"seed\":1}\n{\"seed\":2}\n";
  const auto done = run_program({"run", data(checkpoint), "--config", layer, "--device", "sim",
                                 "--sim", "link=10MB/s,compute=2ms", "--requests",
                                 requests.string(), "--trace", trace.string(), "--report", "-"});
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);

  const auto told = json::parse(run_program({"trace", trace.string(), "--json"}).out);

  CHECK_THAT(read_text(trace), Contains("\"warm-up begins\"") && Contains("\"warm-up ended\""));
  CHECK(told["steps"] == report["steps"]);
  CHECK(told["exposed_wait_s"].get<double>() ==
        Approx(report["exposed_wait_s"].get<double>()).margin(1e-9));
  CHECK(told["late_blocks"] > 0);
  for (const auto& late : told["late"]) {
    CAPTURE(late.dump());
    CHECK(late["cause"] != "not_recorded");
  }
}

TEST_CASE("a step with residents takes by the model of its trace what it took", "[app][run]") {
  const std::string with_residents = R"({"mode":"layer","components":["dit"],"slots":2,
      "layer_options":{"dit":{"resident_blocks":[1,3]}}})";
  const test::scratch_directory scratch;
  const auto trace = scratch.path() / "trace.json";
  const auto done = run_program({"run", data("wan-tiny"), "--config", with_residents, "--device",
                                 "sim", "--sim", "link=10MB/s,compute=2ms", "--steps", "6",
                                 "--trace", trace.string(), "--report", "-"});
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  std::array<char, 64> step{};
  std::snprintf(step.data(), step.size(), "instead of %.2f ms)",
                report["step_s"].back().get<double>() * 1e3);

  const auto shown = json::parse(run_program({"trace", trace.string(), "--json"}).out);

  CHECK(shown["compute_s"] >= 6 * 7 * 2 * 0.002); // Of all seven blocks, twice a step.
  CHECK(shown["elapsed_s"] >= shown["lower_bound_s"]);
  CHECK_THAT(shown["causes"]["link_busy"]["advice"].get<std::string>(), Contains(step.data()));
}

TEST_CASE("a trace of what streams nothing has no figures of blocks", "[app][run]") {
  const test::scratch_directory scratch;
  const auto trace = scratch.path() / "trace.json";
  REQUIRE(run_program({"run", data("wan-tiny"), "--config",
                       R"({"mode":"module","components":["dit","text_encoder"]})", "--device",
                       "sim", "--steps", "1", "--trace", trace.string()})
              .code == 0);

  const auto table = run_program({"trace", trace.string()}).out;
  const auto told = json::parse(run_program({"trace", trace.string(), "--json"}).out);

  CHECK_THAT(table, Contains("overlap efficiency    -\n") &&
                        Contains("lower bound           -\n") && Contains("no block was streamed"));
  for (const auto* figure :
       {"exposed_wait_s", "overlap_efficiency", "lower_bound_s", "distance_to_bound", "link_use"})
    CHECK(told[figure].is_null());
}

TEST_CASE("a trace takes the place of a trace, and of nothing else", "[app][run]") {
  const test::scratch_directory scratch;
  const auto trace = (scratch.path() / "trace.json").string();
  const auto notes = scratch.write("notes.txt", "mine").string();
  scratch.write("empty", "");
  const auto traced_to = [&](const std::string& where) {
    return run_program({"run", data("flux-tiny"), "--config", layer, "--device", "sim", "--steps",
                        "1", "--trace", where});
  };

  CHECK(traced_to(trace).code == 0);
  CHECK(traced_to(trace).code == 0);
  CHECK(traced_to((scratch.path() / "empty").string()).code == 0);
  const auto refused = traced_to(notes);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("--trace names '" + notes +
                                   "', which holds something else than a trace; expected"));
  CHECK(read_text(notes) == "mine");
}

TEST_CASE("a report takes the place of a report, and of nothing else", "[app][run]") {
  const test::scratch_directory scratch;
  const auto report = (scratch.path() / "report.json").string();
  const auto notes = scratch.write("notes.txt", "mine").string();
  const auto reported_to = [&](const std::string& where) {
    return run_program(
        {"run", data("flux-tiny"), "--device", "sim", "--steps", "1", "--report", where});
  };

  CHECK(reported_to(report).code == 0);
  CHECK(reported_to(report).code == 0);
  const auto refused = reported_to(notes);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("--report names '" + notes +
                                   "', which holds something else than a report; expected"));
  CHECK(read_text(notes) == "mine");
}

TEST_CASE("ranks that are threads leave one trace, on one clock", "[app][run]") {
  const std::string device = GENERATE("sim", "host");
  const std::string gathered = R"({"mode":"layer","components":["dit"],
      "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
  const test::scratch_directory scratch;
  const auto trace = scratch.path() / "trace.json";
  REQUIRE(run_program({"run", data("wan-tiny"), "--config", gathered, "--device", device, "--ranks",
                       "2", "--steps", "1", "--trace", trace.string()})
              .code == 0);

  const auto told = json::parse(run_program({"trace", trace.string(), "--json"}).out);

  REQUIRE(told["ranks_report"].size() == 2);
  for (const auto& rank : told["ranks_report"]) {
    CHECK(rank["blocks"] > 0);
    CHECK(rank["gather_s"] > 0);
  }
}

TEST_CASE("pictures are the reference's frames in 8 bits", "[app][run]") {
  const test::scratch_directory scratch;
  const auto reference = data("wan-tiny") + "/reference.safetensors";

  const auto done = run_program({"run", data("wan-tiny"), "--reference", reference, "--device",
                                 "host", "--output", scratch.path().string()});

  REQUIRE(done.code == 0);
  const auto picture = test::read_png(scratch.path() / "frame-005.png");
  const auto expected = to_rgb("expected", planes_of_frame(reference, 5), 96, 64);
  CHECK(picture.width == 96);
  CHECK(picture.height == 64);
  CHECK(std::ranges::equal(picture.pixels, expected.pixels,
                           [](int a, int b) { return std::abs(a - b) <= 1; }));
}

TEST_CASE("a single frame is a picture", "[app][run]") {
  const auto* checkpoint = GENERATE("wan-tiny", "flux-tiny");
  const test::scratch_directory scratch;
  const auto out = scratch.path() / "out";

  const auto done = run_program({"run", data(checkpoint), "--device", "host", "--steps", "1",
                                 "--frames", "1", "--output", out.string()});

  CHECK(done.code == 0);
  CHECK(names_in(out) == std::set<std::string>{"latents.safetensors", "picture.png"});
}

/// Overwrites the first value of a tensor in a safetensors file.
void spoil(const std::filesystem::path& path, const std::string& tensor) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const auto offset = json::parse(header)[tensor]["data_offsets"][0].get<std::uint64_t>();
  const float wrong = 1e3F;
  file.seekp(static_cast<std::streamoff>(sizeof(length) + length + offset));
  file.write(reinterpret_cast<const char*>(&wrong), sizeof(wrong));
}

TEST_CASE("a run that differs from its reference says so and exits with 3", "[app][run]") {
  const test::scratch_directory scratch;
  const auto reference = scratch.path() / "reference.safetensors";
  std::filesystem::copy_file(data("wan-tiny") + "/reference.safetensors", reference);
  const auto stage = GENERATE(as<std::string>(), "latents.3", "frames");
  spoil(reference, stage);

  const auto done = run_program({"run", data("wan-tiny"), "--reference", reference.string(),
                                 "--config", layer, "--device", "sim", "--report", "-"});

  CHECK(done.code == 3);
  CHECK_THAT(done.err, Contains("stage '" + stage + "'"));
  CHECK(json::parse(done.out)["reference_max_abs_error"] > 1);
}

TEST_CASE("device weights stay within the residents and two blocks", "[app][run]") {
  const auto done = run_program({"run", data("wan-dual-tiny"), "--config", layer, "--device",
                                 "host", "--steps", "2", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  std::uint64_t fixed = 0;
  std::uint64_t largest = 0;
  for (const auto& [path, part] : report["components"].items()) {
    fixed += part["bytes"].get<std::uint64_t>() - part["streamed_bytes"].get<std::uint64_t>();
    largest = std::max(largest, part["largest_block_bytes"].get<std::uint64_t>());
  }
  CHECK(report["peak_device_weight_bytes"] <= fixed + 2 * largest + (1 << 20));
  CHECK(report["peak_device_weight_bytes"] >= 2 * largest);
}

TEST_CASE("of whole components, the device holds the largest one and what stays", "[app][run]") {
  const auto* checkpoint = GENERATE("wan-tiny", "wan-dual-tiny", "flux-tiny");
  CAPTURE(checkpoint);

  const auto done = run_program({"run", data(checkpoint), "--config", module, "--device", "host",
                                 "--steps", "2", "--size", "32x32", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  std::uint64_t fixed = 0;
  std::uint64_t largest = 0;
  for (const auto& [path, part] : report["components"].items()) {
    const auto bytes = part["bytes"].get<std::uint64_t>();
    if (part["selected"])
      largest = std::max(largest, bytes);
    else
      fixed += bytes;
  }
  const auto alignment = 64 << 10;
  CHECK(report["peak_device_weight_bytes"] <= fixed + largest + alignment);
  CHECK(report["peak_device_weight_bytes"] >= fixed + largest);
  CHECK(report["total_weight_bytes"] > fixed + largest + alignment);
}

TEST_CASE("ranks that are threads gather the weights, and each gives the bytes of the resident run",
          "[app][run][ranks]") {
  const std::string device = GENERATE("sim", "host");
  const std::string config = R"({"mode":"layer","components":["dit","text_encoder"],
      "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
  const auto done =
      run_program({"run", data("wan-tiny"), "--config", config, "--device", device, "--ranks", "3",
                   "--steps", "2", "--compare-resident", "--report", "-"});

  INFO(done.err);
  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["ranks"] == 3);
  CHECK(report["output_equals_resident"] == true);
  REQUIRE(report["ranks_report"].size() == 3);
  for (const auto& each : report["ranks_report"]) {
    CHECK(each["collectives"] == report["collectives"]);
    CHECK(each["output_sha256"] == report["output_sha256"]);
    // On a host device what lies between the tensors of a block is not copied.
    CHECK((device == "host" || each["h2d_bytes"] == report["h2d_bytes"]));
    CHECK(each["d2h_bytes"] == 0);
    CHECK(each["races"] == 0);
  }
  CHECK(report["collectives"] > 0);
}

TEST_CASE("the gathers of ranks are among the transfers that are measured", "[app][run][ranks]") {
  const auto done =
      run_program({"run", data("wan-tiny"), "--config",
                   R"({"mode":"layer","components":["dit"],
           "layer_options":{"dit":{"weight_transfer":"allgather"}}})",
                   "--device", "sim", "--sim", "link=10TB/s,compute=20us,gather_latency=1ms",
                   "--ranks", "2", "--steps", "2", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  // All but those of the blocks that came before the first was asked for.
  CHECK(report["lower_bound_s"] >= 1e-3 * (report["collectives"].get<double>() - 2));
  CHECK(report["overlap_efficiency"] > 0);
}

TEST_CASE("ranks that gather nothing are each as one alone", "[app][run][ranks]") {
  const auto done = run_program({"run", data("wan-tiny"), "--config", layer, "--device", "sim",
                                 "--ranks", "2", "--steps", "1", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  REQUIRE(report["ranks_report"].size() == 2);
  CHECK(report["ranks_report"][1]["collectives"] == 0);
  CHECK(report["ranks_report"][1]["strategy"] == "layer_wise");
}

TEST_CASE("a seed may be as large as a seed can be", "[app][run]") {
  const auto done =
      run_program({"run", data("wan-tiny"), "--device", "host", "--steps", "1", "--size", "32x32",
                   "--frames", "1", "--seed", "18446744073709551615", "--ranks", "1"});

  CHECK(done.code == 0);
}

TEST_CASE("a resident run on the simulated device has no virtual step times", "[app][run]") {
  const auto done = run_program({"run", data("wan-tiny"), "--device", "sim", "--steps", "2",
                                 "--size", "32x32", "--frames", "1", "--report", "-"});

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["steps"] == 2);
  CHECK(report["step_s"] == json::array());
  CHECK(report["wall_s"] > 0);
}

TEST_CASE("an interrupted run stops in order and leaves no result", "[app][run]") {
  const test::scratch_directory scratch;
  const auto path = [&](const char* name) { return (scratch.path() / name).string(); };
  std::vector<std::string> arguments = {
      "run",      data("wan-tiny"), "--device",    "host",        "--steps", "1000",
      "--size",   "256x256",        "--log-level", "info",        "--trace", path("trace.json"),
      "--output", path("out"),      "--report",    path("r.json")};
  if (GENERATE(true, false))
    arguments.insert(arguments.end(), {"--config", layer});
  test::running_program running(arguments);
  running.wait_until_it_says("begin request");

  running.send(SIGINT);

  const auto done = running.finish();
  CHECK(done.code == 130);
  CHECK_THAT(done.err, Catch::EndsWith("\nferry: interrupted\n"));
  CHECK(done.out == "");
  CHECK(names_in(path("out")).empty());
  CHECK(names_in(scratch.path()) == std::set<std::string>{"out", "trace.json"});
  const auto shown = run_program({"trace", path("trace.json")});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains("the trace ends before the run did"));
}

TEST_CASE("what is measured of streamed blocks is null where none is streamed", "[app][run]") {
  auto arguments =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--config", module});
  const std::vector<std::string> common = {"run", data("flux-tiny"), "--device",
                                           "sim", "--steps",         "1"};
  arguments.insert(arguments.begin(), common.begin(), common.end());
  const auto table = run_program(arguments).out;
  arguments.insert(arguments.end(), {"--report", "-"});

  const auto report = json::parse(run_program(arguments).out);

  CHECK(report["exposed_wait_s"] == nullptr);
  CHECK(report["overlap_efficiency"] == nullptr);
  CHECK(report["lower_bound_s"] == nullptr);
  CHECK_THAT(table, Contains("1 request, 1 step\n"));
  CHECK_THAT(table, Contains("prefetches                 -\n") &&
                        Contains("exposed wait               -\n") &&
                        Contains("overlap                    -\n"));
}

TEST_CASE("latents that are not finite fail the run by that name", "[app][run]") {
  auto arguments = GENERATE(std::vector<std::string>{},
                            std::vector<std::string>{"--config", layer, "--compare-resident"});
  const test::scratch_directory scratch;
  arguments.insert(arguments.begin(), {"run", data("wan-tiny"), "--device", "host", "--guidance",
                                       "1e38", "--output", scratch.path()});

  const auto done = run_program(arguments);

  CHECK(done.code == 1);
  CHECK_THAT(done.err, Contains("the latents are not finite: ") && !Contains("internal"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  CHECK(names_in(scratch.path()).empty());
}

TEST_CASE("more resident layers than blocks are all blocks, with one warning", "[app][run]") {
  const auto done = run_program(
      {"run", data("wan-tiny"), "--device", "sim", "--steps", "1", "--config",
       R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":99}}})"});

  CHECK(done.code == 0);
  CHECK_THAT(done.err, Contains("dit.resident_layers is 99 and transformer has ") &&
                           Contains(" blocks; all of them are resident layers"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("legacy options without a flag that enables anything are warned of in one line",
          "[app][run]") {
  const auto done = run_program({"run", data("wan-tiny"), "--device", "host", "--steps", "1",
                                 "--no-pin-memory", "--dlo-pin-budget-gb", "1"});

  CHECK(done.code == 0);
  CHECK_THAT(done.err, Contains("pin_cpu_memory, dlo_pin_budget_gb without effect"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("the page on configuration defines every field of the report and no other", "[app]") {
  const auto page =
      read_text(std::filesystem::path(FERRY_TEST_DATA) / "../../docs/configuration.md");
  const auto begin = page.find("#### What the report says");
  const auto section = page.substr(begin, page.find("\n#### ", begin + 1) - begin);
  static const std::regex row("\n\\| `([a-z0-9_]+)`");
  const std::set<std::string> defined(
      std::sregex_token_iterator(section.begin(), section.end(), row, 1),
      std::sregex_token_iterator());

  const auto report = json::parse(run_program({"run", data("wan-tiny"), "--device", "host",
                                               "--steps", "1", "--ranks", "2", "--report", "-"})
                                      .out);

  std::set<std::string> reported;
  for (const auto& [name, value] : report.items())
    reported.insert(name);
  for (const auto& [name, value] : report["components"]["transformer"].items())
    reported.insert(name);
  CHECK(defined == reported);
}

TEST_CASE("the page on configuration names every option and no other", "[app]") {
  const auto page =
      read_text(std::filesystem::path(FERRY_TEST_DATA) / "../../docs/configuration.md");
  auto helped = options_in(run_program({"run", "--help"}).out);
  helped.merge(options_in(run_program({"checkpoint", "--help"}).out));
  helped.merge(options_in(run_program({"plan", "--help"}).out));
  helped.merge(options_in(run_program({"devices", "--help"}).out));
  helped.merge(options_in(run_program({"trace", "--help"}).out));
  helped.insert("--version");

  CHECK(options_in(page) == helped);
}

TEST_CASE("a report that cannot be written fails with the reason", "[app][run]") {
  const test::scratch_directory scratch;
  const auto full = scratch.path() / "full";
  std::filesystem::create_symlink("/dev/full", full);

  const auto done = run_program({"run", data("wan-tiny"), "--device", "host", "--steps", "1",
                                 "--size", "32x32", "--frames", "1", "--report", full.string()});

  CHECK(done.code == 1);
  CHECK_THAT(done.err, Contains("the report '" + full.string() +
                                "' could not be written: No space left on device"));
}

TEST_CASE("device memory that is too small is refused with what tells what fits", "[app][run]") {
  const auto done = run_program(
      {"run", data("wan-tiny"), "--device", "sim", "--config", layer, "--device-memory", "1kB"});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("device memory of 1000 bytes is too small: needs at least ") &&
                           Contains(" for what stays + 2 slots of ") &&
                           Contains("; ferry plan --device-memory SIZE lists what fits"));
}

} // namespace
} // namespace ferry
