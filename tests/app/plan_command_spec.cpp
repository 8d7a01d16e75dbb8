// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::run_program;
using words = std::vector<std::string>;

const std::string model = "link=20MB/s,compute=2ms"; // Blocks of the test data come in 2 to 5 ms.

std::string data(const std::string& name) {
  return (std::filesystem::path(FERRY_TEST_DATA) / name).string();
}

words planning(const std::string& checkpoint, words more) {
  words all{"plan", data(checkpoint), "--json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json plan(const std::string& checkpoint, const words& more) {
  const auto done = run_program(planning(checkpoint, more));
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  return json::parse(done.out)["configurations"];
}

/// Runs what was planned on a simulated device with so much memory.
json run(const std::string& checkpoint, const std::string& memory, const words& more) {
  words all{"run", data(checkpoint),  "--device", "sim",      "--sim", model, "--steps",
            "6",   "--device-memory", memory,     "--report", "-"};
  all.insert(all.end(), more.begin(), more.end());
  const auto done = run_program(all);
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  return json::parse(done.out);
}

/// Returns the time of a step once the order of blocks is known.
double steady_step(const json& report) {
  auto steps = report["step_s"].get<std::vector<double>>();
  std::ranges::nth_element(steps, steps.begin() + 3);
  return steps[3];
}

std::uint64_t all_bytes(const std::string& checkpoint) {
  return plan(checkpoint, {}).front()["peak_device_weight_bytes"];
}

TEST_CASE(
    "the best configuration is what an automatic run takes, and its step, its device bytes and "
    "its pinned bytes are as predicted",
    "[app][plan]") {
  const auto* checkpoint = GENERATE("flux-tiny", "wan-tiny");
  const auto tenths = GENERATE(8U, 9U);
  const auto memory = std::to_string(all_bytes(checkpoint) * tenths / 10);
  CAPTURE(checkpoint, tenths);

  const auto best =
      plan(checkpoint, {"--device-memory", memory, "--sim", model, "--steps", "6"}).front();
  const auto report = run(checkpoint, memory, {"--config", "auto"});

  CAPTURE(best.dump());
  CHECK(report["strategy"] == best["strategy"]);
  CHECK(steady_step(report) == Approx(best["step_s"].get<double>()).epsilon(0.01));
  CHECK(report["peak_device_weight_bytes"] == best["peak_device_weight_bytes"]);
  CHECK(report["pinned_bytes"] == best["pinned_bytes"]);
  CHECK(report["chosen"]["config"] == best["config"]);
  CHECK(report["chosen"]["options"] == best["options"]);
  CHECK(report["chosen"]["step_s"] == best["step_s"]);
  CHECK(report["chosen"]["peak_device_weight_bytes"] == best["peak_device_weight_bytes"]);
}

TEST_CASE("the table of an automatic run says what was chosen and predicted", "[app][plan]") {
  const auto memory = std::to_string(all_bytes("flux-tiny") * 6 / 10);

  const auto done = run_program({"run", data("flux-tiny"), "--device", "sim", "--sim", model,
                                 "--device-memory", memory, "--config", "auto"});
  const auto asked = run_program({"run", data("flux-tiny"), "--device", "sim", "--report", "-"});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("  chosen                     --config '{\"mode\":\"layer\"") &&
                           Contains("\n  step, predicted            ") &&
                           Contains("\n  peak, predicted            "));
  CHECK(json::parse(asked.out)["chosen"].is_null());
}

TEST_CASE("what an automatic run measures fits the memory that the run may take", "[app][plan]") {
  const auto* checkpoint = GENERATE("wan-tiny", "flux-tiny");
  const auto least = run_program(planning(checkpoint, {"--device-memory", "0"})).err;
  const auto bytes = std::stoull(least.substr(least.find("at least ") + 9));
  const auto on_host = [&](std::uint64_t memory) {
    return run_program({"run", data(checkpoint), "--device", "host", "--device-memory",
                        std::to_string(memory), "--config", "auto", "--report", "-"});
  };

  const auto fits = on_host(bytes);
  const auto too_little = on_host(bytes - 1);

  CAPTURE(fits.err, too_little.err);
  REQUIRE(fits.code == 0);
  CHECK(json::parse(fits.out)["peak_device_weight_bytes"] <= bytes);
  CHECK(too_little.code == 2);
  CHECK_THAT(too_little.err, Contains(" + 1 slots of ")); // It was tried, not only planned.
}

TEST_CASE("options that choose are refused beside an automatic choice before anything is read",
          "[app][plan]") {
  const auto beside =
      GENERATE(words{"--enable-cpu-offload"}, words{"--enable-layerwise-offload"},
               words{"--enable-distributed-layerwise-offload"}, words{"--dlo-no-use-allgather"},
               words{"--dlo-resident-layers", "1"}, words{"--dlo-chunk-size-mb", "16"},
               words{"--dlo-pin-budget-gb", "1"},
               words{"--dlo-pin-failure-policy", "whole_block_fallback"}, words{"--no-pin-memory"});
  words all{"run", "/no/such/place", "--config", "auto"};
  all.insert(all.end(), beside.begin(), beside.end());

  const auto done = run_program(all);

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(beside.front() + " is given beside --config auto"));
}

TEST_CASE("every configuration that is planned runs as predicted", "[app][plan]") {
  const std::string checkpoint = GENERATE("flux-tiny", "wan-tiny");
  const auto memory = std::to_string(all_bytes(checkpoint) * 7 / 10);
  const auto plans = plan(checkpoint, {"--device-memory", memory, "--sim", model, "--rows", "6"});
  REQUIRE(plans.size() == 6);
  const auto& each = plans[GENERATE(range(0U, 6U))];
  CAPTURE(each.dump());

  const auto report = run(checkpoint, memory,
                          {"--config", each["config"].dump(), "--passes-per-fetch",
                           std::to_string(each["passes_per_fetch"].get<int>())});

  CHECK(steady_step(report) == Approx(each["step_s"].get<double>()).epsilon(0.01));
  CHECK(report["peak_device_weight_bytes"] == each["peak_device_weight_bytes"]);
}

TEST_CASE("how many passes share a fetch is planned, and what to paste says so where it is not the "
          "default",
          "[app][plan]") {
  const auto memory = std::to_string(all_bytes("wan-tiny") * 7 / 10);
  const words asked = {"--device-memory", memory, "--sim", "link=20MB/s,compute=500us"};
  const auto with = [&](const words& more) {
    auto all = asked;
    all.insert(all.end(), more.begin(), more.end());
    return plan("wan-tiny", all).front();
  };

  const auto own = with({});
  const auto apart = with({"--passes-per-fetch", "1"});
  const auto several = with({"--passes-per-fetch", "4"});

  CHECK(own["passes_per_fetch"] == 2);
  CHECK_THAT(own["options"].get<std::string>(), !Contains("--passes-per-fetch"));
  CHECK(apart["passes_per_fetch"] == 1);
  CHECK_THAT(apart["options"].get<std::string>(), Contains(" --passes-per-fetch 1"));
  CHECK(several["passes_per_fetch"] == 4);
  CHECK_THAT(several["options"].get<std::string>(), Contains(" --passes-per-fetch 4"));
  CHECK(several["step_s"] < own["step_s"]);
  CHECK(own["step_s"] < apart["step_s"]);
}

TEST_CASE("ranks are planned for, and run as predicted", "[app][plan]") {
  const auto memory = std::to_string(all_bytes("wan-tiny") * 3 / 4);
  const auto plans = plan("wan-tiny", {"--device-memory", memory, "--sim", model, "--ranks", "2"});
  const auto gathering = std::ranges::find(
      plans, "allgather", [](const json& each) { return each["weight_transfer"]; });
  REQUIRE(gathering != plans.end());

  const auto report =
      run("wan-tiny", memory, {"--ranks", "2", "--config", (*gathering)["config"].dump()});

  CHECK(steady_step(report) == Approx((*gathering)["step_s"].get<double>()).epsilon(0.01));
  CHECK(report["peak_device_weight_bytes"] == (*gathering)["peak_device_weight_bytes"]);
}

/// Writes a checkpoint of bf16 weights that is larger than the test data.
std::string bf16_checkpoint(const test::scratch_directory& scratch) {
  const auto path = (scratch.path() / "bf16").string();
  REQUIRE(run_program({"checkpoint", "wan", path, "--blocks", "8", "--hidden", "64", "--head-dim",
                       "32", "--text-hidden", "32"})
              .code == 0);
  return path;
}

/// Returns what is planned, with all that is not a row.
json plan_of(const std::string& path, const words& more) {
  words all{"plan", path, "--json", "--rows", "100"};
  all.insert(all.end(), more.begin(), more.end());
  const auto done = run_program(all);
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  return json::parse(done.out);
}

/// Returns the device bytes with the denoisers streamed through so many slots and nothing resident.
std::uint64_t device_bytes(const json& plans, std::size_t slots) {
  const auto& rows = plans["configurations"];
  const auto found = std::ranges::find_if(rows, [&](const json& each) {
    return each["slots"] == slots && each["resident_blocks"] == 0 &&
           each["config"]["components"] == json::array({"dit"});
  });
  REQUIRE(found != rows.end());
  return (*found)["peak_device_weight_bytes"];
}

TEST_CASE(
    "a plan in f32 of a bf16 checkpoint has slots twice as large, and the device bytes of the "
    "run",
    "[app][plan][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);

  const auto stored = plan_of(path, {});
  const auto wide = plan_of(path, {"--compute-dtype", "f32"});
  const auto ran =
      run_program({"run", path, "--device", "sim", "--steps", "1", "--report", "-", "--config",
                   R"({"mode":"layer","components":["dit"],"slots":3})", "--compute-dtype", "f32"});

  REQUIRE(ran.code == 0);
  const auto report = json::parse(ran.out);
  CHECK(device_bytes(wide, 3) == report["peak_device_weight_bytes"]);
  const auto slot = device_bytes(wide, 3) - device_bytes(wide, 2);
  CHECK(slot == report["slot_bytes"]);
  const auto stored_slot = device_bytes(stored, 3) - device_bytes(stored, 2);
  CHECK(static_cast<double>(slot) ==
        Approx(2.0 * static_cast<double>(stored_slot)).epsilon(0.02)); // Tensors are aligned.
  CHECK(wide["compute_dtype"] == report["compute_dtype"]);
  CHECK(stored["compute_dtype"] == "bf16");
}

TEST_CASE("what is planned in another type is pasted with it, as an automatic run takes it",
          "[app][plan][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);
  const words asked{
      "--compute-dtype", "f32",
      "--device-memory", std::to_string(device_bytes(plan_of(path, {"--compute-dtype", "f32"}), 2)),
      "--sim",           model};

  const auto best = plan_of(path, asked)["configurations"].front();
  words line{"run", path, "--device", "sim", "--config", "auto", "--report", "-"};
  line.insert(line.end(), asked.begin(), asked.end());
  const auto ran = run_program(line);
  words table{"plan", path};
  table.insert(table.end(), asked.begin(), asked.end());

  REQUIRE(ran.code == 0);
  const auto chosen = json::parse(ran.out)["chosen"];
  CHECK(best["options"].get<std::string>().find("--compute-dtype f32 --config '") == 0);
  CHECK(chosen["options"] == best["options"]);
  CHECK(chosen["step_s"] == best["step_s"]);
  CHECK_THAT(run_program(table).out, Contains("\ncomputes in f32\n\nbest: --compute-dtype f32 "));
}

TEST_CASE("a plan that chooses the type says which one it took and why",
          "[app][plan][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);
  const auto chosen = run_program({"plan", path, "--compute-dtype", "auto", "--device", "host"});

  CHECK(chosen.code == 0);
  CHECK_THAT(chosen.out, Contains("\ncomputes in ") && Contains(": a product takes ") &&
                             Contains("ms in f32, ") && Contains("ms in bf16\n"));
  CHECK_THAT(run_program({"plan", path}).out, Contains("\ncomputes in bf16\n"));
}

TEST_CASE("nothing is pinned in a plan for a device that reads all memory as it is",
          "[app][plan]") {
  const auto pinned = [](const words& more) {
    std::uint64_t most = 0;
    for (const auto& each : plan("wan-tiny", more))
      most = std::max(most, each["pinned_bytes"].get<std::uint64_t>());
    return most;
  };
  const auto table = run_program({"plan", data("wan-tiny"), "--device", "host"}).out;

  CHECK(pinned({}) > 0);
  CHECK(pinned({"--device", "sim"}) > 0);
  CHECK(pinned({"--device", "host"}) == 0);
  CHECK(pinned({"--device", "host", "--measure"}) == 0);
  CHECK_FALSE(plan("wan-tiny", {"--device", "host", "--host-memory", "0"}).empty());
  CHECK_THAT(table, Contains("\non host, for which nothing is pinned\n") &&
                        Contains("\n   2: --device host --config '"));
  CHECK_THAT(run_program({"plan", data("wan-tiny")}).out,
             Contains("\non a device for which weights are pinned; see --device\n") &&
                 !Contains(": --device"));
}

TEST_CASE("rates are measured in the type that is planned for", "[app][plan][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);
  const auto least = run_program({"plan", path, "--device-memory", "0"}).err;
  words measuring{"plan",
                  path,
                  "--measure",
                  "--device",
                  "sim",
                  "--device-memory",
                  std::to_string(std::stoull(least.substr(least.find("at least ") + 9)))};

  const auto stored = run_program(measuring);
  measuring.insert(measuring.end(), {"--compute-dtype", "f32"});
  const auto wide = run_program(measuring);

  CHECK(stored.code == 0);
  CHECK(wide.code == 2);
  CHECK_THAT(wide.err, Contains(" + 1 slots of ")); // It was tried, not only planned.
}

TEST_CASE("ranks that compute in another type are planned, and run, without gathers",
          "[app][plan][ranks][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);
  const auto gathers = [](const json& plans) {
    return std::ranges::any_of(plans["configurations"], [](const json& each) {
      return each["weight_transfer"] == "allgather";
    });
  };
  const auto slots = std::to_string(device_bytes(plan_of(path, {"--compute-dtype", "f32"}), 4));
  const words slow{"--ranks", "4", "--sim", "link=5MB/s,compute=500us", "--device-memory", slots};
  words line{"run",      path,   "--device", "sim", "--steps",         "1",
             "--config", "auto", "--report", "-",   "--compute-dtype", "f32"};
  line.insert(line.end(), slow.begin(), slow.end());

  const auto stored = plan_of(path, {"--ranks", "2"});
  const auto wide = plan_of(path, {"--ranks", "2", "--compute-dtype", "f32"});
  const auto same = plan_of(path, {"--ranks", "2", "--compute-dtype", "bf16"});
  const auto ran = run_program(line);

  CHECK(gathers(stored));
  CHECK_FALSE(gathers(wide));
  CHECK(gathers(same));
  CAPTURE(ran.err);
  CHECK(ran.code == 0);
}

TEST_CASE("what ranks cannot gather does not count as what would fit",
          "[app][plan][ranks][conversion]") {
  const test::scratch_directory scratch;
  const auto path = bf16_checkpoint(scratch);
  const auto rows = plan_of(path, {"--ranks", "4", "--compute-dtype", "f32"})["configurations"];
  std::uint64_t device = 0;
  std::uint64_t host = std::numeric_limits<std::uint64_t>::max();
  for (const auto& each : rows)
    if (each["strategy"] == "none")
      device = each["peak_device_weight_bytes"];
    else
      host = std::min(host, each["pinned_bytes"].get<std::uint64_t>());

  const auto done =
      run_program({"plan", path, "--ranks", "4", "--compute-dtype", "f32", "--device-memory",
                   std::to_string(device - 1), "--host-memory", std::to_string(host - 1)});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("needs at least " + std::to_string(device) + " bytes") &&
                           Contains("or host memory of at least " + std::to_string(host) + " ") &&
                           Contains("; ranks gather no weights that are converted"));
}

TEST_CASE("the step of two denoisers is the mean of theirs", "[app][plan]") {
  const auto best =
      plan("wan-dual-tiny", {"--compute", "transformer=2ms,transformer_2=6ms"}).front();

  const auto& each = best["component_step_s"];
  REQUIRE(each.size() == 2);
  const auto first = each["transformer"].get<double>();
  const auto second = each["transformer_2"].get<double>();
  CHECK(first != second);
  CHECK(best["step_s"].get<double>() == Approx((first + second) / 2));
}

TEST_CASE("a table is printed with what to paste", "[app][plan]") {
  const auto memory = std::to_string(all_bytes("flux-tiny") * 6 / 10);

  const auto done =
      run_program({"plan", data("flux-tiny"), "--device-memory", memory, "--sim", model});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("strategy") && Contains("residents") &&
                           Contains("\nbest: --config '{\"mode\":\""));
  const auto fits = run_program({"plan", data("flux-tiny")});
  CHECK_THAT(fits.out, Contains("best: everything on the device"));
}

TEST_CASE("rates are measured where that is asked for", "[app][plan]") {
  const auto [checkpoint, block] = GENERATE(table<std::string, std::string>(
      {{"wan-tiny", "transformer.blocks.0"}, {"flux-tiny", "transformer.transformer_blocks.0"}}));
  const auto least = run_program(planning(checkpoint, {"--device-memory", "0"})).err;
  const auto done = run_program(planning(
      checkpoint, {"--measure", "--device", "sim", "--sim", model, "--device-memory",
                   std::to_string(std::stoull(least.substr(least.find("at least ") + 9)))}));

  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  const auto rates = json::parse(done.out)["rates"];
  CHECK(rates["link_bytes_per_s"].get<double>() == Approx(20e6).epsilon(0.001));
  CHECK(rates["computes_s"][block] == 0.002);
}

TEST_CASE("a rate that is typed takes the place of the measured one", "[app][plan]") {
  const auto rates = [&](const words& more) {
    words all{"--measure", "--device", "sim", "--sim", model};
    all.insert(all.end(), more.begin(), more.end());
    return json::parse(run_program(planning("flux-tiny", all)).out)["rates"];
  };

  const auto measured = rates({});
  const auto typed = rates({"--link", "5MB/s", "--compute", "9ms", "--jitter", "1"});
  const auto of_one = rates({"--compute", "transformer.transformer_blocks.0=7ms"});

  CHECK(measured["link_bytes_per_s"].get<double>() == Approx(20e6).epsilon(0.001));
  CHECK_FALSE(measured["computes_s"].empty());
  CHECK(typed["link_bytes_per_s"] == 5e6);
  CHECK(typed["jitter"] == 1);
  CHECK(typed["compute_s"] == 0.009);
  CHECK(typed["computes_s"].empty());
  CHECK(of_one["computes_s"]["transformer.transformer_blocks.0"] == 0.007);
  CHECK(of_one["computes_s"]["transformer.transformer_blocks.1"] == 0.002);
}

TEST_CASE("what a plan assumes because it was not measured is told", "[app][plan]") {
  const auto measured = [&](const words& more) {
    words all{"--measure", "--device", "sim"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(planning("flux-tiny", all)).err;
  };

  CHECK(measured({}).empty());
  CHECK_THAT(measured({"--ranks", "2"}), Contains("not measured and are assumed") &&
                                             Contains(": gather, gather-latency, host-link\n"));
}

TEST_CASE("a key of the model that no plan counts is told", "[app][plan]") {
  const auto done = run_program(planning("flux-tiny", {"--sim", "link=1GB/s,hop=3ms"}));

  CHECK(done.code == 0);
  CHECK_THAT(done.err, Contains("sim.hop counts for nothing in a plan"));
}

TEST_CASE("no more passes are chosen to share a fetch than the requests have", "[app][plan]") {
  const words asked{"run",
                    data("wan-tiny"),
                    "--device",
                    "sim",
                    "--sim",
                    "link=10MB/s,compute=2ms",
                    "--device-memory",
                    "1300KB",
                    "--steps",
                    "6",
                    "--config",
                    "auto",
                    "--report",
                    "-"};
  const auto chosen = [&](const words& more) {
    auto all = asked;
    all.insert(all.end(), more.begin(), more.end());
    const auto done = run_program(all);
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    return json::parse(done.out);
  };

  const auto alone = chosen({});
  const auto allowed = chosen({"--passes-per-fetch", "8"});

  CHECK(allowed["chosen"]["config"] == alone["chosen"]["config"]);
  CHECK(steady_step(allowed) == Approx(allowed["chosen"]["step_s"].get<double>()).epsilon(0.01));
}

TEST_CASE("a checkpoint with one block is planned for and run", "[app][plan]") {
  const test::scratch_directory scratch;
  const auto one = (scratch.path() / "one").string();
  REQUIRE(run_program(
              {"checkpoint", "wan", one, "--blocks", "1", "--hidden", "128", "--text-blocks", "1"})
              .code == 0);

  const auto planned = run_program({"plan", one});
  const auto ran = run_program({"run", one, "--device", "sim", "--steps", "1", "--config", "auto"});
  const auto refused = run_program({"run", one, "--device", "sim", "--config",
                                    R"({"mode":"layer","components":["dit"],"slots":2,
                       "layer_options":{"dit":{"resident_bytes":1}}})"});

  CHECK(planned.code == 0);
  CHECK_THAT(planned.out, Contains("model_level") && !Contains("layer_wise"));
  CHECK(ran.code == 0);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("a single streaming block"));
}

TEST_CASE("every row of the table tells its components and how to run it", "[app][plan]") {
  const auto memory = std::to_string(all_bytes("flux-tiny") * 6 / 10);
  const auto done =
      run_program({"plan", data("flux-tiny"), "--device-memory", memory, "--sim",
                   "link=20MB/s,compute=500us", "--rows", "100", "--passes-per-fetch", "2"});

  REQUIRE(done.code == 0);
  std::set<std::string> rows;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line) && !line.empty();)
    CHECK(rows.insert(line.substr(3)).second); // Behind its number.
  CHECK_THAT(done.out, Contains("dit+text_encoder") && Contains("\n   2: --config '") &&
                           Contains("in the order of what a request of 4 steps takes") &&
                           Contains("rates: link 0.02 GB/s, jitter 0, 500.0 us a block") &&
                           Contains("2 passes are those of 2 requests at a time"));
}

TEST_CASE("where nothing fits the least that would is told", "[app][plan]") {
  const auto none = run_program(planning("flux-tiny", {"--device-memory", "0"}));

  CHECK(none.code == 2);
  CHECK_THAT(none.err,
             Contains("device memory of 0 bytes is too small") && Contains("needs at least "));
  const auto least = none.err.substr(none.err.find("at least ") + 9);
  const auto bytes = least.substr(0, least.find_first_not_of("0123456789"));
  CHECK(run_program(planning("flux-tiny", {"--device-memory", bytes})).code == 0);
}

TEST_CASE("what excludes a configuration is told, host memory as well", "[app][plan]") {
  const auto enough = std::to_string(all_bytes("flux-tiny") - 1);

  const auto host =
      run_program(planning("flux-tiny", {"--device-memory", enough, "--host-memory", "1KiB"}));
  const auto beside = run_program(
      planning("flux-tiny", {"--device-memory", enough, "--host-memory", "1KiB", "--ranks", "2"}));

  CHECK(host.code == 2);
  CHECK_THAT(host.err, Contains(" in host memory of 1024 bytes (1.0 KiB); needs at least ") &&
                           Contains(", or host memory of at least "));
  CHECK(beside.code == 2);
}

TEST_CASE("what is planned for ranks is pasted with them, and nothing stands twice",
          "[app][plan][ranks]") {
  const auto memory = std::to_string(all_bytes("wan-tiny") * 3 / 4);
  const words asked{"--device-memory", memory, "--sim", model, "--ranks", "2", "--rows", "100"};

  const auto plans = plan("wan-tiny", asked);
  words table{"plan", data("wan-tiny")};
  table.insert(table.end(), asked.begin(), asked.end());
  const auto done = run_program(table);

  CHECK_THAT(done.out, Contains("\nbest: --ranks 2 --config '"));
  CHECK(plans.front()["options"].get<std::string>().find("--ranks 2 --config '") == 0);
  // The blocks are smaller than the smallest chunk: its size makes no difference.
  CHECK(std::ranges::all_of(plans, [](const json& each) {
    return each["weight_transfer"] != "allgather" || each["chunk_bytes"] == 64 << 20;
  }));
  CHECK(plan("wan-tiny", {}).front()["weight_transfer"].is_null());
  CHECK_THAT(run_program({"plan", data("wan-tiny"), "--ranks", "2"}).out,
             Contains("\nbest: everything on the device: --ranks 2, without --config\n"));
}

TEST_CASE("nonsense is refused by its option", "[app][plan]") {
  const auto [more, expected] = GENERATE(table<words, std::string>({
      {{"--link", "0GB/s"},
       "--link is '0GB/s'; expected a rate of at least 100kB/s such as 25GB/s"},
      {{"--link", "-1GB/s"}, "--link is '-1GB/s'; expected a rate"},
      {{"--link", "infGB/s"}, "--link is 'infGB/s'; expected a rate"},
      {{"--link", "25GB"},
       "--link is '25GB', which lacks its unit; expected a rate of at least 100kB/s"},
      {{"--link", "5"},
       "--link is '5', which lacks its unit; expected a rate of at least 100kB/s such as 25GB/s"},
      {{"--gather", "3furlongs/s"}, "--gather is '3furlongs/s'; expected a rate"},
      {{"--host-link", "x"}, "--host-link is 'x'; expected a rate"},
      {{"--compute", "2"},
       "--compute is '2', which lacks its unit; expected a time of at most 60min such as 2ms"},
      {{"--compute", "-2ms"}, "--compute is '-2ms'; expected a time of at most 60min such as 2ms"},
      {{"--compute", "transformer=2ms,3ms"},
       "expected a time of at most 60min such as 2ms, or PATH=TIME"},
      {{"--compute", "dit=2ms"}, "'dit' is that of no block; expected a path such as transformer"},
      {{"--gather-latency", "1h"}, "--gather-latency is '1h'; expected a time"},
      {{"--compute", "3601s"}, "--compute is '3601s'; expected a time of at most 60min"},
      {{"--gather-latency", "61min"}, "--gather-latency is '61min'; expected a time of at most"},
      {{"--host-link", "99kB/s"}, "--host-link is '99kB/s'; expected a rate of at least 100kB/s"},
      {{"--link", "0"}, "--link is '0'; expected a rate of at least 100kB/s such as 25GB/s"},
      {{"--sim", "compute=900000000s"}, "sim.compute is '900000000s'; expected a time of at most"},
      {{"--guidance", "nan"}, "guidance is nan; expected a number from 0 to"},
      {{"--jitter", "-1"}, "--jitter is '-1'; expected a number from 0 to 10"},
      {{"--jitter", "nan"}, "--jitter is 'nan'; expected a number from 0 to 10"},
      {{"--sim", "link=0GB/s"}, "sim.link is '0GB/s'; expected a rate of at least 100kB/s"},
      {{"--device-memory", "64Mib"}, "--device-memory: "},
      {{"--device-memory", "-1"}, "--device-memory: "},
      {{"--host-memory", "much"}, "--host-memory: "},
      {{"--measure", "--device", ""}, "--device is ''; expected sim, host or cuda"},
      {{"--compute-dtype", "fp8"}, "--compute-dtype is 'fp8'; expected bf16, f32, or auto"},
      {{"--compute-dtype", "auto", "--device", "abacus"}, "abacus"},
      {{"--ranks", "0"}, "--ranks is '0'; expected an integer from 1 to 64"},
      {{"--steps", "0"}, "--steps is '0'; expected an integer from 1 to 1000"},
      {{"--rows", "0"}, "--rows is '0'; expected an integer from 1 to 1000"},
      {{"--guidance", "much"}, "--guidance is 'much'; expected a number"},
      {{"--passes-per-fetch", "0"}, "--passes-per-fetch is '0'; expected an integer from 1 to 64"},
  }));

  const auto done = run_program(planning("flux-tiny", more));

  CAPTURE(done.err);
  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("a checkpoint that is none is refused", "[app][plan]") {
  CHECK(run_program({"plan", data("")}).code == 2);
  CHECK(run_program({"plan", "/no/such/place"}).code == 2);
}

TEST_CASE("an automatic run of what fits offloads nothing", "[app][plan]") {
  const auto report = run("wan-tiny", "1GB", {"--config", "auto"});

  CHECK(report["strategy"] == "none");
}

} // namespace
} // namespace ferry
