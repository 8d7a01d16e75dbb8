// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"
#include "support/taken_port.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;
using test::read_text;

constexpr auto shared_by_ranks = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"}}})";

using words = std::vector<std::string>;

fs::path tiny() {
  return fs::path(FERRY_TEST_DATA) / "wan-tiny";
}

/// Returns the arguments of a rank that shares its weights.
words sharing(const words& options) {
  words all{"run", tiny().string(), "--device", "host", "--config", shared_by_ranks};
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

/// Processes of `ferry run` that are ranks of one group, as a launcher starts them.
class rank_processes {
public:
  /// @param arguments of each rank
  explicit rank_processes(const std::vector<words>& arguments) {
    const auto port = std::to_string(test::free_port());
    for (std::size_t rank = 0; rank != arguments.size(); ++rank)
      ranks_.push_back(std::make_unique<test::running_program>(
          arguments[rank],
          words{"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
                "WORLD_SIZE=" + std::to_string(arguments.size()), "MASTER_ADDR=127.0.0.1",
                "MASTER_PORT=" + port}));
  }

  [[nodiscard]] test::running_program& operator[](int rank) {
    return *ranks_[static_cast<std::size_t>(rank)];
  }

private:
  std::vector<std::unique_ptr<test::running_program>> ranks_;
};

TEST_CASE("ranks that are processes make the output of one", "[app][ranks]") {
  const auto size = GENERATE(2, 3);
  const test::scratch_directory scratch;
  const auto path = [&](const std::string& name) { return (scratch.path() / name).string(); };
  rank_processes ranks{
      std::vector(static_cast<std::size_t>(size),
                  sharing({"--compare-resident", "--steps", "2", "--report", path("r.json")}))};

  for (int rank = 0; rank != size; ++rank) {
    const auto done = ranks[rank].finish();
    INFO(done.err);
    REQUIRE(done.code == 0);
  }

  const auto first = json::parse(read_text(path("r.json")));
  for (int rank = 0; rank != size; ++rank) {
    const auto name = rank == 0 ? "r.json" : "r.rank" + std::to_string(rank) + ".json";
    const auto report = json::parse(read_text(path(name)));
    CHECK(report["output_equals_resident"] == true);
    CHECK(report["output_sha256"] == first["output_sha256"]);
    CHECK(report["collectives"] == first["collectives"]);
  }
}

TEST_CASE("a rank that is killed at any stage ends the others with its number",
          "[app][ranks][faults]") {
  struct stage {
    const char* line; ///< What the rank says when it gets there.
    std::chrono::milliseconds later;
  };
  const auto killed = GENERATE(0, 1, 2);
  const auto at =
      GENERATE(stage{"join ranks", 0ms}, stage{"vote to start", 0ms}, stage{"enable backend", 0ms},
               stage{"begin request", 0ms}, stage{"begin request", 400ms});
  CAPTURE(killed, at.line, at.later.count());
  rank_processes ranks{
      std::vector(3, sharing({"--steps", "1000", "--size", "256x256", "--log-level", "info"}))};
  ranks[killed].wait_until_it_says(at.line);
  std::this_thread::sleep_for(at.later);

  ranks[killed].send(SIGKILL);

  const auto begun = std::chrono::steady_clock::now();
  for (int rank = 0; rank != 3; ++rank) {
    if (rank == killed)
      continue;
    const auto done = ranks[rank].finish();
    CHECK(done.code == 1);
    // The store goes with rank 0, maybe before the others know its process.
    CHECK_THAT(done.err, Contains("the process of rank " + std::to_string(killed) + " has ended") ||
                             Contains(killed == 0 ? "the store of rank 0 at" : "nothing else"));
  }
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
}

/// Checks that both ranks were refused in the same words, soon, and returns the words.
std::string refused_alike(const words& first, const words& second) {
  const auto begun = std::chrono::steady_clock::now();
  rank_processes ranks{{first, second}};
  const auto done = std::array{ranks[0].finish(), ranks[1].finish()};

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  CHECK(done[0].code == 2);
  CHECK(done[1].code == 2);
  CHECK(done[0].err == done[1].err);
  return done[0].err;
}

std::string refused_alike(int rank, const words& it, const words& other) {
  return rank == 0 ? refused_alike(it, other) : refused_alike(other, it);
}

TEST_CASE("what one rank has to refuse is refused by all, in its words and with its number",
          "[app][ranks]") {
  const auto rank = GENERATE(0, 1);
  const auto [options, expected] = GENERATE(table<words, std::string>({
      {{"--config", R"({"mode":"layer"})"}, "components"},
      {{"--report", "/no/such/directory/r.json"}, "--report"},
      {{"--prompt-ids", "256"}, "expected an integer from 0 to 255"},
      {{"--device", "sim"}, "the launcher started 2 processes and the device is sim"},
      {{"--setps", "3"}, "--setps"},
  }));
  CAPTURE(rank, expected);
  words it{"run", tiny().string(), "--device", "host"};
  if (options.front() == "--device")
    it.resize(2);
  it.insert(it.end(), options.begin(), options.end());

  const auto said = refused_alike(rank, it, sharing({}));

  CHECK_THAT(said, Contains(expected));
  CHECK_THAT(said, Contains("(rank " + std::to_string(rank) + ")"));
}

TEST_CASE("a checkpoint that is cut short on one rank is refused by all", "[app][ranks]") {
  const auto rank = GENERATE(0, 1);
  const test::scratch_directory scratch;
  const auto copy = scratch.path() / "wan-tiny";
  fs::copy(tiny(), copy, fs::copy_options::recursive);
  fs::resize_file(copy / "text_encoder" / "model.safetensors", 100);
  auto it = sharing({});
  it[1] = copy.string();

  const auto said = refused_alike(rank, it, sharing({}));

  CHECK_THAT(said, Contains("model.safetensors"));
  CHECK_THAT(said, Contains("(rank " + std::to_string(rank) + ")"));
}

TEST_CASE("ranks of which one offloads nothing are all refused, also that one", "[app][ranks]") {
  const auto rank = GENERATE(0, 1);

  const auto said = refused_alike(rank, {"run", tiny().string(), "--device", "host"}, sharing({}));

  CHECK_THAT(said, Contains("rank 1 has configuration"));
  CHECK_THAT(said, Contains("(rank 1)"));
}

} // namespace
} // namespace ferry
