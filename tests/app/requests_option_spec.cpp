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
using nlohmann::json;
using test::read_text;
using test::run_program;
using words = std::vector<std::string>;

const std::string layer = R"({"mode":"layer","components":["dit","text_encoder"]})";
const std::string tiny = (std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny").string();

words operator+(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const words first_request = {"--prompt-ids", "5,17",  "--seed",   "3", "--steps", "2",
                             "--size",       "32x32", "--frames", "5"};
const std::string first_line =
    R"({"prompt_ids":[5,17],"seed":3,"steps":2,"size":"32x32","frames":5})";
const words second_request = {"--negative-prompt-ids",
                              "2,3",
                              "--steps",
                              "1",
                              "--guidance",
                              "1.5",
                              "--size",
                              "48x32",
                              "--frames",
                              "1"};
const std::string second_line =
    R"({"negative_prompt_ids":[2,3],"steps":1,"guidance":1.5,"size":"48x32","frames":1})";
/// Ends in latents that are not finite, of which no picture can be drawn.
const std::string failing_line = R"({"steps":1,"guidance":1e38,"size":"32x32","frames":1})";

std::string latents_in(const std::filesystem::path& directory) {
  return read_text(directory / "latents.safetensors");
}

TEST_CASE("several requests end as they would alone", "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("r.jsonl", first_line + "\n" + second_line + "\n").string();
  const auto how = GENERATE(words{"--device", "host", "--config", layer},
                            words{"--device", "sim", "--config", layer}, words{"--device", "host"});
  const auto out = scratch.path() / "out";

  const auto done = run_program(words{"run", tiny, "--requests", file, "--compare-resident",
                                      "--output", out.string(), "--report", "-"} +
                                how);

  REQUIRE(done.code == 0);
  const auto report = json::parse(done.out);
  CHECK(report["requests"] == 2);
  CHECK(report["steps"] == 3);
  CHECK(report["step_s"].size() == 3);
  CHECK(report["tickets_in_flight"] == 0);
  CHECK(report["device_allocations_after_warmup"] == 0);
  CHECK(report["output_equals_resident"] == true);
  const std::vector<std::pair<std::string, words>> singles = {{"request-000", first_request},
                                                              {"request-001", second_request}};
  for (const auto& [name, options] : singles) {
    const auto alone = scratch.path() / "alone" / name;
    REQUIRE(run_program(words{"run", tiny, "--output", alone.string()} + how + options).code == 0);
    CHECK(latents_in(out / name) == latents_in(alone));
    CHECK(std::filesystem::exists(out / name / "frame-004.png") == (name == "request-000"));
  }
}

TEST_CASE("a request from a file counts as one that was typed, warmed up or not",
          "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("r.jsonl", first_line).string();
  const words how = {"run", tiny, "--device", "sim", "--config", layer, "--report", "-"};

  const auto listed = json::parse(run_program(how + words{"--requests", file}).out);
  const auto typed = json::parse(run_program(how + first_request).out);

  CHECK(listed["output_sha256"] == typed["output_sha256"]);
  CHECK(listed["h2d_bytes"] <= typed["h2d_bytes"]);
  CHECK(listed["prefetches"].get<int>() + listed["blocking_loads"].get<int>() <=
        typed["prefetches"].get<int>() + typed["blocking_loads"].get<int>());
  CHECK(listed["lower_bound_s"] <= typed["lower_bound_s"]);
  CHECK(listed["step_s"].size() == 2);
}

TEST_CASE("one warm-up request runs before the first of a file, and none before a single one",
          "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("r.jsonl", first_line + "\n" + second_line + "\n").string();
  const auto log_of = [](const words& more) {
    const auto done = run_program(
        words{"run", tiny, "--device", "sim", "--config", layer, "--log-level", "info"} + more);
    REQUIRE(done.code == 0);
    return done.err;
  };

  const auto served = log_of({"--requests", file});

  const auto at = served.find("warm up");
  REQUIRE(at != std::string::npos);
  CHECK(at < served.find("begin request number=1"));
  CHECK(served.find("warm up", at + 1) == std::string::npos);
  CHECK_THAT(log_of(first_request), !Contains("warm up"));
}

TEST_CASE("a request that fails is named and the others run", "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file =
      scratch.write("r.jsonl", first_line + "\n" + failing_line + "\n" + second_line).string();
  const auto out = scratch.path() / "out";

  const auto done =
      run_program({"run", tiny, "--requests", file, "--device", "host", "--config", layer,
                   "--output", out.string(), "--report", "-", "--compare-resident"});

  CHECK(done.code == 1);
  CHECK_THAT(done.err, Contains(file + ":2: "));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  const auto report = json::parse(done.out);
  CHECK(report["requests"] == 2);
  CHECK(report["tickets_in_flight"] == 0);
  CHECK(report["output_equals_resident"] == true);
  CHECK(std::filesystem::exists(out / "request-000" / "latents.safetensors"));
  CHECK(std::filesystem::exists(out / "request-002" / "latents.safetensors"));
}

TEST_CASE("every line of a request file is checked before anything runs", "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("r.jsonl", first_line + "\n{\"steps\":0}\n").string();
  const auto out = scratch.path() / "out";

  const auto done =
      run_program({"run", tiny, "--requests", file, "--device", "host", "--output", out.string()});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(file + ":2: steps is 0; expected an integer from 1 to 1000"));
  CHECK(done.out == "");
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a request file comes without another request", "[app][requests]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("r.jsonl", first_line).string();
  const auto [more, expected] = GENERATE(table<words, std::string>({
      {{"--reference", "any"}, "--requests and --reference both bring requests"},
      {{"--steps", "2"}, "--requests brings the request along; leave --prompt-ids"},
      {{"--seed", "2"}, "--requests brings the request along"},
      {{"--report", "FILE"}, "--report and --requests both name"},
  }));
  auto arguments = words{"run", tiny, "--requests", file} + more;
  std::ranges::replace(arguments, "FILE", file);

  const auto done = run_program(arguments);

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
  CHECK(read_text(file) == first_line);
}

} // namespace
} // namespace ferry
