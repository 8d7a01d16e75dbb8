// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::run_program;
using words = std::vector<std::string>;

auto lines_of(const std::string& text) {
  return std::ranges::count(text, '\n');
}

TEST_CASE("the program says its version and those of its libraries", "[app]") {
  const auto done = run_program({"--version"});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, StartsWith("ferry 0.") && Contains("\nlibtorch ") && Contains("\nCAF ") &&
                           Contains("\nCUDA ") && Contains("\nNCCL "));
  CHECK(done.err == "");
}

TEST_CASE("every command explains itself and its log level", "[app]") {
  auto arguments =
      GENERATE(words{}, words{"checkpoint"}, words{"plan"}, words{"devices"}, words{"trace"});
  arguments.push_back("--help");

  const auto done = run_program(arguments);

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("Usage: ferry") && Contains("--log-level"));
  CHECK(done.err == "");
}

TEST_CASE("devices are listed with the reason for those that cannot be opened", "[app]") {
  const auto done = run_program({"devices"});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("sim ") && Contains("host ") && Contains("cuda "));
  CHECK(lines_of(done.out) == 3);
}

TEST_CASE("a command line that cannot be read is rejected in one line", "[app]") {
  const auto [arguments, expected] = GENERATE(table<words, std::string>({
      {words{}, "no command; expected one of "},
      {{"frob"}, "'frob' is no command; expected one of "},
      {{"--frob"}, "'--frob' is no command"},
      {{"devices", "extra"}, "extra"},
      {{"devices", "--log-level", "loud"}, "--log-level: loud not in {trace,debug"},
      {{"trace"}, "FILE is required; see ferry trace --help"},
      {{"trace", "t.json", "--longest", "-1"}, "--longest is '-1'; expected an integer from 0"},
      {{"checkpoint"}, "FAMILY is required; see ferry checkpoint --help"},
      {{"checkpoint", "wan"}, "DIRECTORY is required; see ferry checkpoint --help"},
      {{"checkpoint", "frob", "x"}, "FAMILY: frob not in {flux,wan}"},
      {{"checkpoint", "wan", "x", "--blocks"}, "--blocks"},
      {{"checkpoint", "wan", "x", "--blocks", "0"}, "--blocks: Value 0 not in range 1 to 4096"},
      {{"checkpoint", "wan", "x", "--blocks", "two"}, "--blocks: Value two"},
      {{"checkpoint", "wan", "x", "--dtype", "q7"}, "--dtype: q7 not in {f32,bf16,f16}"},
      {{"checkpoint", "wan", "x", "--preset", "large"},
       "--preset: large not in {small,flux-dev,wan-1.3b"},
      {{"checkpoint", "flux", "x", "--preset", "wan-14b"},
       "--preset is 'wan-14b'; expected one of flux: flux-dev, small"},
      {{"checkpoint", "flux", "x", "--denoisers", "2"}, "--denoisers is 2; expected nothing"},
      {{"checkpoint", "flux", "x", "--ffn", "64"}, "--ffn is 64; expected nothing"},
      {{"checkpoint", "wan", "x", "--single-blocks", "2"},
       "--single-blocks is 2; expected nothing"},
      {{"checkpoint", "wan", "x", "--seed", "-1"}, "--seed is '-1'; expected an integer from 0"},
      {{"checkpoint", "wan", "x", "--seed", "18446744073709551616"},
       "--seed is '18446744073709551616'; expected an integer from 0 to 18446744073709551615"},
      {{"checkpoint", "wan", "x", "--hidden", "100"},
       "--hidden is 100; expected a multiple of 128"},
      {{"checkpoint", "wan", "x", "--head-dim", "7"}, "--head-dim is 7; expected an even number"},
      {{"checkpoint", "wan", "x", "--vae-width", "7"}, "--vae-width is 7; expected an even number"},
      {{"checkpoint", "wan", "x", "--vae-width", "8", "--no-vae"}, "--no-vae"},
      {{"checkpoint", "wan", "x", "--shard-size", "10"},
       "--shard-size is 10; expected at least 4kB"},
      {{"checkpoint", "wan", "x", "--shard-size", "3x"}, "--shard-size: size '3x' cannot be read"},
  }));

  const auto done = run_program(arguments);

  CHECK(done.code == 2);
  CHECK(done.out == "");
  CHECK(lines_of(done.err) == 1);
  CHECK_THAT(done.err, StartsWith("ferry: invalid_argument: ") && Contains(expected));
}

TEST_CASE("OpenMP threads spin for a moment only, unless the environment says otherwise", "[app]") {
  const auto spins = [](const std::vector<std::string>& variables) {
    auto all = variables;
    all.emplace_back("OMP_DISPLAY_ENV=verbose");
    test::running_program asked({"--version"}, all);
    return asked.finish().err;
  };
  const auto said = spins({});
  if (said.find("GOMP_SPINCOUNT") == std::string::npos) {
    WARN("libtorch has another OpenMP here, or the test has told it what to do");
    return;
  }
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr)
    CHECK_THAT(said, Catch::Contains("GOMP_SPINCOUNT = '1000'"));
  CHECK_THAT(spins({"GOMP_SPINCOUNT=77"}), Catch::Contains("GOMP_SPINCOUNT = '77'"));
  CHECK_THAT(spins({"OMP_WAIT_POLICY=passive"}), !Catch::Contains("GOMP_SPINCOUNT = '1000'"));
}

TEST_CASE("the program runs where the loader was told to start it", "[app]") {
  const std::string loader = "/lib64/ld-linux-x86-64.so.2";
  if (!std::filesystem::exists(loader)) {
    WARN("the loader has another name here");
    return;
  }
  const auto done = test::run({loader, FERRY_PROGRAM, "--version"});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, StartsWith("ferry 0."));
}

} // namespace
} // namespace ferry
