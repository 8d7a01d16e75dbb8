// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"
#include "support/taken_port.hpp"

#include <nlohmann/json.hpp>

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
using test::read_text;

constexpr auto shared_by_ranks = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"}}})";

/// Processes of `ferry run` that are ranks of one group, as a launcher starts them.
class rank_processes {
public:
  rank_processes(int size, const std::vector<std::string>& options) {
    std::vector<std::string> arguments{
        "run",      (std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny").string(),
        "--device", "host",
        "--config", shared_by_ranks};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const auto port = std::to_string(test::free_port());
    for (int rank = 0; rank != size; ++rank)
      ranks_.push_back(std::make_unique<test::running_program>(
          arguments, std::vector<std::string>{"RANK=" + std::to_string(rank),
                                              "LOCAL_RANK=" + std::to_string(rank),
                                              "WORLD_SIZE=" + std::to_string(size),
                                              "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}));
  }

  [[nodiscard]] test::running_program& operator[](int rank) {
    return *ranks_[static_cast<std::size_t>(rank)];
  }

private:
  std::vector<std::unique_ptr<test::running_program>> ranks_;
};

std::vector<std::string> shared_memory() {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    names.push_back(each.path().filename());
  return names;
}

TEST_CASE("ranks that are processes make the output of one", "[app][ranks]") {
  const auto size = GENERATE(2, 3);
  const test::scratch_directory scratch;
  const auto path = [&](const std::string& name) { return (scratch.path() / name).string(); };
  rank_processes ranks{size, {"--compare-resident", "--steps", "2", "--report", path("r.json")}};

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
  const auto before = shared_memory();
  rank_processes ranks{3, {"--steps", "1000", "--size", "256x256", "--log-level", "info"}};
  ranks[killed].wait_until_it_says(at.line);
  std::this_thread::sleep_for(at.later);

  ranks[killed].send(SIGKILL);

  const auto begun = std::chrono::steady_clock::now();
  for (int rank = 0; rank != 3; ++rank) {
    if (rank == killed)
      continue;
    const auto done = ranks[rank].finish();
    CHECK(done.code == 1);
    CHECK_THAT(done.err, Contains("rank " + std::to_string(killed)));
  }
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(shared_memory() == before);
}

} // namespace
} // namespace ferry
