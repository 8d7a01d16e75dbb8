// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/key_value_store.hpp>
#include <ferry/torch/tcp_store.hpp>

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"
#include "support/taken_port.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
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

/// Who hosts the store that the ranks meet at.
enum class store_host : std::uint8_t {
  rank_0,
  launcher, ///< As torchrun does on one machine.
};

/// Processes of `ferry run` that are ranks of one group, as a launcher starts them.
class rank_processes {
public:
  /// @param arguments of each rank
  explicit rank_processes(const std::vector<words>& arguments,
                          store_host host = store_host::rank_0) {
    const auto port = test::free_port();
    const auto size = std::to_string(arguments.size());
    words common{"WORLD_SIZE=" + size, "LOCAL_WORLD_SIZE=" + size, "MASTER_ADDR=127.0.0.1",
                 "MASTER_PORT=" + std::to_string(port), "TMPDIR=" + temporary_.path().string()};
    if (host == store_host::launcher) {
      store_ = open_tcp_store({.address = "127.0.0.1", .port = port}, 10s).value();
      common.insert(common.end(),
                    {"TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RESTART_COUNT=0",
                     "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=none"});
    }
    for (std::size_t rank = 0; rank != arguments.size(); ++rank) {
      auto variables = common;
      for (const auto* name : {"RANK=", "LOCAL_RANK=", "ROLE_RANK="})
        variables.push_back(name + std::to_string(rank));
      ranks_.push_back(std::make_unique<test::running_program>(arguments[rank], variables));
    }
  }

  [[nodiscard]] test::running_program& operator[](int rank) {
    return *ranks_[static_cast<std::size_t>(rank)];
  }

  /// Names the files of the ranks that outlive them, in memory or not.
  [[nodiscard]] std::set<fs::path> left_behind() const {
    auto left = files_in(temporary_.path());
    std::ranges::set_difference(files_in(shared_memory), shared_before_,
                                std::inserter(left, left.end()));
    return left;
  }

private:
  static constexpr auto shared_memory = "/dev/shm";

  static std::set<fs::path> files_in(const fs::path& directory) {
    std::set<fs::path> found;
    for (const auto& each : fs::directory_iterator(directory))
      found.insert(each.path());
    return found;
  }

  std::shared_ptr<key_value_store> store_;
  test::scratch_directory temporary_;
  std::set<fs::path> shared_before_ = files_in(shared_memory);
  std::vector<std::unique_ptr<test::running_program>> ranks_;
};

TEST_CASE("ranks that are processes make the output of one", "[app][ranks]") {
  const auto size = GENERATE(2, 3);
  const auto host = GENERATE(store_host::rank_0, store_host::launcher);
  const test::scratch_directory scratch;
  const auto path = [&](const std::string& name) { return (scratch.path() / name).string(); };
  rank_processes ranks{
      std::vector(static_cast<std::size_t>(size),
                  sharing({"--compare-resident", "--steps", "2", "--report", path("r.json")})),
      host};

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

TEST_CASE("processes do not choose a configuration each, and are told how to get one",
          "[app][ranks][plan]") {
  rank_processes ranks{
      std::vector(2, words{"run", tiny().string(), "--device", "host", "--config", "auto"})};

  for (int rank = 0; rank != 2; ++rank) {
    const auto done = ranks[rank].finish();
    CHECK(done.code == 2);
    CHECK_THAT(done.err, Contains("run ferry plan --ranks 2 once and give all of them"));
  }
}

/// Returns what Open MPI's mpirun, MPICH's or srun tells a rank of two.
/// @param port where MPICH's are to meet, which gives a job none of its own
words told_by(const std::string& launcher, int rank, const std::string& job, std::uint16_t port) {
  const auto own = std::to_string(rank);
  if (launcher == "Open MPI")
    return {"OMPI_COMM_WORLD_RANK=" + own, "OMPI_COMM_WORLD_LOCAL_RANK=" + own,
            "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=" + job};
  if (launcher == "MPICH")
    return {"PMI_RANK=" + own, "MPI_LOCALRANKID=" + own, "PMI_SIZE=2", "MPI_LOCALNRANKS=2",
            "MASTER_PORT=" + std::to_string(port)};
  return {"SLURM_PROCID=" + own,    "SLURM_LOCALID=" + own, "SLURM_STEP_NUM_TASKS=2",
          "SLURM_STEP_NUM_NODES=1", "SLURM_JOB_ID=" + job,  "SLURM_STEP_ID=0"};
}

TEST_CASE("what srun and mpirun start are ranks of one group", "[app][ranks]") {
  const auto launcher = GENERATE(std::string("Open MPI"), "MPICH", "srun");
  CAPTURE(launcher);
  const test::scratch_directory scratch; // Its name is that of a job, which has a port.
  const auto job = scratch.path().string();
  const auto port = test::free_port();
  const auto report = scratch.path() / "r.json";
  const auto arguments = sharing({"--steps", "1", "--report", report.string()});
  test::running_program first(arguments, told_by(launcher, 0, job, port));
  test::running_program second(arguments, told_by(launcher, 1, job, port));

  const auto done = std::array{first.finish(), second.finish()};

  INFO(done[0].err + done[1].err);
  REQUIRE(done[0].code == 0);
  REQUIRE(done[1].code == 0);
  CHECK(json::parse(read_text(report))["ranks"] == 2);
  CHECK(json::parse(read_text(scratch.path() / "r.rank1.json"))["ranks"] == 2);
}

TEST_CASE("a process in an allocation of a batch system that no launcher started runs alone",
          "[app][ranks]") {
  test::running_program alone({"run", tiny().string(), "--device", "host", "--steps", "1"},
                              {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4", "SLURM_PROCID=0"});

  const auto done = alone.finish();

  CHECK(done.code == 0);
  CHECK_THAT(done.out, !Contains("ranks"));
}

TEST_CASE("a rank that is killed at any stage ends the others with its number",
          "[app][ranks][faults]") {
  struct stage {
    const char* line; ///< What the rank says when it gets there.
    std::chrono::milliseconds later;
  };
  const auto killed = GENERATE(0, 1, 2);
  const auto at =
      GENERATE(stage{"announce rank", 0ms}, stage{"wait for ranks", 0ms}, stage{"join ranks", 0ms},
               stage{"vote to start", 0ms}, stage{"enable backend", 0ms},
               stage{"begin request", 0ms}, stage{"begin request", 400ms});
  CAPTURE(killed, at.line, at.later.count());
  rank_processes ranks{
      std::vector(3, sharing({"--steps", "1000", "--size", "256x256", "--log-level", "info"}))};
  // Who has not reached rank 0 yet knows neither it nor the store.
  for (int rank = 0; rank != 3; ++rank)
    ranks[rank].wait_until_it_says("announce rank");
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
  CHECK(ranks.left_behind() == std::set<fs::path>());
}

TEST_CASE("a rank that is killed before the others know of it is named when their patience is over",
          "[app][ranks][faults]") {
  const auto killed = GENERATE(0, 1, 2);
  CAPTURE(killed);
  rank_processes ranks{std::vector(3, sharing({"--join-patience", "3"}))};

  ranks[killed].send(SIGKILL);

  const auto begun = std::chrono::steady_clock::now();
  for (int rank = 0; rank != 3; ++rank) {
    if (rank == killed)
      continue;
    const auto done = ranks[rank].finish();
    CHECK(done.code == 1);
    CHECK_THAT(done.err, Contains(killed == 0 ? "no store answers at"
                                              : "rank " + std::to_string(killed) +
                                                    " did not come to 'processes' within 3 s"));
    CHECK_THAT(done.err, Contains("(rank " + std::to_string(killed) + ")"));
  }
  CHECK(std::chrono::steady_clock::now() - begun < 3s + 5s);
  CHECK(ranks.left_behind() == std::set<fs::path>());
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
