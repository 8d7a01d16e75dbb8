// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/key_value_store.hpp>
#include <ferry/torch/tcp_store.hpp>

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"
#include "support/taken_port.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

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

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr auto at_once = 4s; // A sanitizer looks around before a process ends.
#else
constexpr auto at_once = 1s;
#endif

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
  /// @param numbers which rank each is told to be, where that is not its place
  explicit rank_processes(const std::vector<words>& arguments, store_host host = store_host::rank_0,
                          const std::vector<std::size_t>& numbers = {}) {
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
        variables.push_back(name + std::to_string(numbers.empty() ? rank : numbers[rank]));
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
    CHECK_THAT(done.out,
               Contains(", rank " + std::to_string(rank) + " of " + std::to_string(size) + ", "));
  }

  const auto first = json::parse(read_text(path("r.json")));
  for (int rank = 0; rank != size; ++rank) {
    const auto name = rank == 0 ? "r.json" : "r.rank" + std::to_string(rank) + ".json";
    const auto report = json::parse(read_text(path(name)));
    CHECK(report["rank"] == rank);
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

/// How far a rank gets.
struct stage {
  const char* line; ///< What it says when it gets there.
  std::chrono::milliseconds later;
};

const std::vector<stage> stages{{"announce rank", 0ms},  {"wait for ranks", 0ms},
                                {"join ranks", 0ms},     {"vote to start", 0ms},
                                {"enable backend", 0ms}, {"begin request", 0ms},
                                {"begin request", 400ms}};

/// Kills one of three ranks at a stage. Checks that the others end soon with one of these causes.
void check_killed(int killed, const stage& at, store_host host, const words& causes) {
  CAPTURE(killed, at.line, at.later.count());
  rank_processes ranks{
      std::vector(3, sharing({"--steps", "1000", "--size", "256x256", "--log-level", "info"})),
      host};
  // Who has not reached the store yet knows nobody.
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
    INFO(done.err);
    CHECK(done.code == 1);
    CHECK(std::ranges::any_of(
        causes, [&](const std::string& each) { return done.err.find(each) != std::string::npos; }));
  }
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(ranks.left_behind() == std::set<fs::path>());
}

TEST_CASE("a rank that is killed at any stage ends the others with its number",
          "[app][ranks][faults]") {
  const auto killed = GENERATE(0, 1);
  const auto at = GENERATE(from_range(stages));

  // The store goes with rank 0, maybe before the others know its process.
  auto causes = words{"the process of rank " + std::to_string(killed) + " has ended"};
  if (killed == 0)
    causes.emplace_back("the store of rank 0 at");
  check_killed(killed, at, store_host::rank_0, causes);
}

TEST_CASE("a rank that is killed at any stage ends the others with its number where the launcher "
          "hosts their store",
          "[app][ranks][faults]") {
  const auto killed = GENERATE(0, 2);
  const auto at = GENERATE(from_range(stages));

  check_killed(killed, at, store_host::launcher,
               {"the process of rank " + std::to_string(killed) + " has ended"});
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
                                                    " did not join within 3 s"));
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
      {{"--ranks", "3"}, "--ranks is 3 and the launcher started 2 processes, each of which"},
      {{"--device", "cuda:0"}, "--device is cuda:0 and the launcher started 2 processes; expected"},
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

  const auto own = rank == 1 ? "\"none\" (rank 0: \"distributed_layer_wise\")"
                             : "\"distributed_layer_wise\" (rank 0: \"none\")";
  CHECK_THAT(said, Contains("rank 1 has another configuration: "));
  CHECK_THAT(said, Contains(std::string("strategy ") + own));
  CHECK_THAT(said, Contains("(rank 1)"));
}

TEST_CASE("ranks whose requests run other blocks are all refused before anything moves",
          "[app][ranks]") {
  auto [own, expected] = GENERATE(table<words, std::string>({
      {{"--steps", "2"}, "rank 1 has other requests: steps 2 (rank 0: 4)"},
      {{"--guidance", "1"}, "rank 1 has other requests: passes_per_step 1 (rank 0: 2)"},
      {{"--passes-per-fetch", "1"},
       "rank 1 has other requests: passes_per_fetch 1 (rank 0: \"of one request\")"},
      {{"--compute-dtype", "bf16"},
       "--compute-dtype is bf16, and ranks gather weights as they are stored, here in f32"},
      {{"--requests", "{}\n{}\n"}, "rank 1 has other requests: count 2 (rank 0: 1)"},
      {{"--requests", "{}\n"}, "rank 1 has other requests: warms_up true (rank 0: false) (rank 1)"},
  }));
  const test::scratch_directory scratch;
  if (own.front() == "--requests")
    own.back() = scratch.write("r.jsonl", own.back()).string();

  const auto said = refused_alike(sharing({}), sharing(own));

  CHECK_THAT(said, Contains(expected));
  CHECK_THAT(said, Contains("(rank 1)"));
}

TEST_CASE("ranks with checkpoints of other pipelines are all refused, by what tells them apart",
          "[app][ranks]") {
  auto other = sharing({});
  other[1] = (fs::path(FERRY_TEST_DATA) / "flux-tiny").string();

  const auto said = refused_alike(sharing({}), other);

  CHECK_THAT(said, Contains("rank 1 has another checkpoint: pipeline \"FluxPipeline\" (rank 0: "
                            "\"WanPipeline\")"));
}

TEST_CASE("of ranks that are processes rank 0 alone writes a report to standard output",
          "[app][ranks]") {
  rank_processes ranks{std::vector(2, sharing({"--steps", "1", "--report", "-"}))};

  const auto done = std::array{ranks[0].finish(), ranks[1].finish()};

  REQUIRE(done[0].code == 0);
  REQUIRE(done[1].code == 0);
  CHECK(json::parse(done[0].out)["rank"] == 0);
  CHECK(done[1].out.empty());
}

TEST_CASE(
    "a rank that is killed where nothing is gathered is told at the end, one that ends is not",
    "[app][ranks][faults]") {
  const auto killed = GENERATE(true, false);
  const auto of_steps = [&](const std::string& steps) {
    return words{"run",         tiny().string(), "--device", "host",
                 "--log-level", "info",          "--steps",  steps};
  };
  rank_processes ranks{{of_steps("150"), of_steps(killed ? "1000" : "1")}};
  ranks[0].wait_until_it_says("begin request");
  if (killed) {
    ranks[1].wait_until_it_says("begin request");
    ranks[1].send(SIGKILL);
  }

  const auto done = ranks[0].finish();

  CHECK(done.code == 0);
  CHECK((done.err.find("the process of rank 1 has ended before its run did") !=
         std::string::npos) == killed);
}

TEST_CASE("a rank says what it refuses before it waits for others to learn of it", "[app][ranks]") {
  const auto wrong = GENERATE(words{"--join-patience", "0"}, words{"--device", "cuda:0"});
  auto arguments = words{"run", tiny().string()};
  arguments.insert(arguments.end(), wrong.begin(), wrong.end());
  const auto begun = std::chrono::steady_clock::now();
  test::running_program alone(arguments, {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=" + std::to_string(test::free_port())});

  alone.wait_until_it_says(wrong.front() + " is ");

  CHECK(std::chrono::steady_clock::now() - begun < at_once + 2s);
  alone.send(SIGKILL);
}

TEST_CASE("a rank whose MASTER_ADDR names no host is refused at once", "[app][ranks]") {
  const auto begun = std::chrono::steady_clock::now();
  test::running_program alone(
      sharing({}), {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=no such host", "MASTER_PORT=29500"});

  const auto done = alone.finish();

  CHECK(std::chrono::steady_clock::now() - begun < at_once + 2s);
  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("MASTER_ADDR is 'no such host', which is no known host"));
}

TEST_CASE("ranks with more requests than a meeting can carry are compared by a digest",
          "[app][ranks]") {
  const test::scratch_directory scratch;
  std::string lines;
  for (int i = 0; i < 1000; ++i)
    lines += R"({"steps":1})"
             "\n";
  const auto shorter = scratch.write("one", lines + R"({"steps":1})").string();
  const auto longer = scratch.write("two", lines + R"({"steps":2})").string();

  const auto said =
      refused_alike(sharing({"--requests", shorter}), sharing({"--requests", longer}));

  CHECK_THAT(said, Contains("rank 1 has other requests: steps \"sha256 ") &&
                       Contains(" (rank 0: \"sha256 ") && !Contains("passes"));
}

TEST_CASE("requests may differ in what runs the same blocks", "[app][ranks]") {
  rank_processes ranks{{sharing({"--steps", "1", "--seed", "1"}),
                        sharing({"--steps", "1", "--size", "32x32", "--prompt-ids", "3"})}};

  CHECK(ranks[0].finish().code == 0);
  CHECK(ranks[1].finish().code == 0);
}

TEST_CASE("a rank beyond its world is refused by all, in its words", "[app][ranks]") {
  rank_processes ranks{{sharing({}), sharing({})}, store_host::rank_0, {0, 2}};

  const auto done = std::array{ranks[0].finish(), ranks[1].finish()};

  CHECK(done[0].code == 2);
  CHECK(done[1].code == 2);
  CHECK(done[0].err == done[1].err);
  CHECK_THAT(done[0].err, Contains("RANK is 2; expected 0 to 1, because WORLD_SIZE is 2 (rank 2)"));
}

TEST_CASE("a rank beyond its world waits for the others as one that refuses something else",
          "[app][ranks]") {
  const words variables{"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                        "MASTER_PORT=" + std::to_string(test::free_port())};
  const auto told = [&](const std::string& rank) {
    auto all = variables;
    all.push_back("RANK=" + rank);
    return all;
  };
  test::running_program beyond(sharing({"--log-level", "info"}), told("2"));
  beyond.wait_until_it_says("reach ranks");
  std::this_thread::sleep_for(2500ms);
  test::running_program first(sharing({}), told("0"));

  CHECK_THAT(first.finish().err, Contains("RANK is 2; expected 0 to 1"));
  CHECK_THAT(beyond.finish().err, Contains("RANK is 2; expected 0 to 1"));
}

TEST_CASE("a rank beyond its world waits for others no longer than there may be any",
          "[app][ranks]") {
  const auto [rank, size, patience] =
      GENERATE(table<std::string, std::string, std::string>({{"2", "2", "1"}, {"1", "1", "60"}}));
  const auto begun = std::chrono::steady_clock::now();
  test::running_program alone(sharing({"--join-patience", patience}),
                              {"RANK=" + rank, "WORLD_SIZE=" + size, "MASTER_ADDR=127.0.0.1",
                               "MASTER_PORT=" + std::to_string(test::free_port())});

  const auto done = alone.finish();

  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(done.code == 2);
}

TEST_CASE("ranks at a port that something else has all end with its number, in the same words",
          "[app][ranks]") {
  const test::taken_port port;
  port.listen();
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<test::running_program>> ranks;
  for (const std::string rank : {"0", "1", "2"})
    ranks.push_back(std::make_unique<test::running_program>(
        sharing({}), words{"RANK=" + rank, "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                           "MASTER_PORT=" + std::to_string(port.number())}));

  for (const auto& each : ranks) {
    const auto done = each->finish();
    CHECK(done.code == 1);
    CHECK(done.err == "ferry: io_failure: port " + std::to_string(port.number()) +
                          " of 127.0.0.1 is in use by something that is not the store of this run; "
                          "set another MASTER_PORT, on all ranks, unless two processes are rank 0 "
                          "(rank 0)\n");
  }
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
}

TEST_CASE("what contradicts the launcher of one process is refused", "[app][ranks]") {
  const auto [options, expected] = GENERATE(table<words, std::string>({
      {{"--ranks", "2"}, "--ranks is 2 and the launcher started 1 process, each"},
      {{"--join-patience", "2"}, "--join-patience is 2 and no launcher started other processes"},
  }));
  test::running_program alone(
      sharing(options), {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"});

  const auto done = alone.finish();

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
}

TEST_CASE("a rank that is alone waits for as long as it has patience, and hardly longer",
          "[app][ranks]") {
  const auto begun = std::chrono::steady_clock::now();
  test::running_program alone(sharing({"--join-patience", "1"}),
                              {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                               "MASTER_PORT=" + std::to_string(test::free_port())});

  const auto done = alone.finish();

  CHECK(std::chrono::steady_clock::now() - begun < 1s + at_once + 500ms);
  CHECK(done.code == 1);
  CHECK(done.err ==
        "ferry: deadline_exceeded: rank 1 did not join within 1 s; start all with the same "
        "MASTER_ADDR and MASTER_PORT, or have more patience to join (rank 1)\n");
}

TEST_CASE("a rank that is lost is told once by the others, and by nobody else",
          "[app][ranks][faults]") {
  const auto killed = GENERATE(0, 1);
  const words endless{"--steps", "1000", "--size", "256x256", "--output"};
  const test::scratch_directory scratch;
  auto quiet = endless;
  quiet.push_back(scratch.path().string());
  auto telling = quiet;
  telling.insert(telling.end(), {"--log-level", "info"});
  rank_processes ranks{
      {sharing(killed == 0 ? telling : quiet), sharing(killed == 1 ? telling : quiet)}};
  ranks[killed].wait_until_it_says("begin request");

  ranks[killed].send(SIGKILL);

  const auto done = ranks[1 - killed].finish();
  INFO(done.err);
  CHECK(done.code == 1);
  const auto first = done.err.find("has ended");
  REQUIRE(first != std::string::npos);
  CHECK(done.err.find("has ended", first + 1) == std::string::npos);
  CHECK_THAT(done.err, !Contains("c10d") && !Contains("frame #") && !Contains("[error]"));
}

TEST_CASE("a rank that is interrupted while it waits for others ends at once", "[app][ranks]") {
  const auto rank = GENERATE(0, 1);
  const auto signal = GENERATE(SIGINT, SIGTERM);
  CAPTURE(rank, signal);
  test::running_program alone(sharing({"--log-level", "info"}),
                              {"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                               "MASTER_ADDR=127.0.0.1",
                               "MASTER_PORT=" + std::to_string(test::free_port())});
  alone.wait_until_it_says(rank == 0 ? "wait for ranks" : "reach ranks");
  const auto begun = std::chrono::steady_clock::now();

  alone.send(signal);

  const auto done = alone.finish();
  CHECK(std::chrono::steady_clock::now() - begun < at_once);
  CHECK(done.code == 130);
  CHECK_THAT(done.err, Catch::EndsWith("\nferry: interrupted\n"));
}

TEST_CASE("ranks whose peer is interrupted while they wait for each other miss it",
          "[app][ranks]") {
  rank_processes ranks{std::vector(3, sharing({"--log-level", "info"}))};
  ranks[2].wait_until_it_says("announce rank");
  ranks[2].send(SIGSTOP);
  for (int rank = 0; rank != 2; ++rank)
    ranks[rank].wait_until_it_says("wait for ranks");

  ranks[1].send(SIGINT);

  CHECK(ranks[1].finish().code == 130);
  const auto told = ranks[0].finish();
  CHECK(told.code == 1);
  CHECK_THAT(told.err, Contains("the process of rank 1 has ended before it came to 'join'") ||
                           Contains("the process of rank 1 has ended before all came to 'join'"));
}

TEST_CASE("a rank that is interrupted at the vote ends at once, and the others with its number",
          "[app][ranks]") {
  const auto rank = GENERATE(0, 1);
  const auto signal = GENERATE(SIGINT, SIGTERM);
  CAPTURE(rank, signal);
  const test::scratch_directory scratch;
  // The other has joined, and opens a trace that nobody reads.
  const auto held = scratch.path() / (rank == 0 ? "trace.rank1" : "trace");
  REQUIRE(::mkfifo(held.c_str(), 0600) == 0);
  const auto waiting = sharing({"--log-level", "info"});
  const auto holding = sharing({"--trace", (scratch.path() / "trace").string()});
  rank_processes ranks{{rank == 0 ? waiting : holding, rank == 0 ? holding : waiting}};
  ranks[rank].wait_until_it_says("vote to start");
  const auto begun = std::chrono::steady_clock::now();

  ranks[rank].send(signal);

  const auto done = ranks[rank].finish();
  CHECK(std::chrono::steady_clock::now() - begun < at_once);
  CHECK(done.code == 130);
  CHECK_THAT(done.err, Catch::EndsWith("\nferry: interrupted\n"));
  const auto reader = ::open(held.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto other = ranks[1 - rank].finish();
  ::close(reader);
  CHECK(other.code == 1);
  CHECK_THAT(other.err, Contains("(rank " + std::to_string(rank) + ")"));
  CHECK(ranks.left_behind() == std::set<fs::path>());
}

TEST_CASE("a rank that is interrupted while a request waits for another rank ends at once, and the "
          "others with its number",
          "[app][ranks]") {
  const auto rank = GENERATE(0, 1);
  const auto signal = GENERATE(SIGINT, SIGTERM);
  CAPTURE(rank, signal);
  rank_processes ranks{
      std::vector(3, sharing({"--steps", "1000", "--size", "256x256", "--log-level", "info"}))};
  for (int each = 0; each != 3; ++each)
    ranks[each].wait_until_it_says("begin request");
  ranks[2].send(SIGSTOP);
  std::this_thread::sleep_for(300ms);
  const auto begun = std::chrono::steady_clock::now();

  ranks[rank].send(signal);

  const auto done = ranks[rank].finish();
  ranks[2].send(SIGCONT);
  CHECK(std::chrono::steady_clock::now() - begun < at_once + 1s);
  CHECK(done.code == 130);
  CHECK_THAT(done.err, Catch::EndsWith("\nferry: interrupted\n"));
  const auto cause = "(rank " + std::to_string(rank) + ")";
  const auto other = ranks[1 - rank].finish();
  CHECK(other.code == 1);
  CHECK_THAT(other.err, Contains("the run was interrupted " + cause));
  const auto last = ranks[2].finish();
  CHECK(last.code == 1);
  CHECK_THAT(last.err, Contains(cause));
  CHECK(ranks.left_behind() == std::set<fs::path>());
}

TEST_CASE("ranks that are threads end at once when they are interrupted at the vote",
          "[app][ranks]") {
  test::running_program ranks(sharing({"--ranks", "3", "--log-level", "info"}));
  ranks.wait_until_it_says("vote to start");
  const auto begun = std::chrono::steady_clock::now();

  ranks.send(SIGINT);

  const auto done = ranks.finish();
  CHECK(std::chrono::steady_clock::now() - begun < at_once);
  CHECK(done.code == 130);
  CHECK_THAT(done.err, Catch::EndsWith("\nferry: interrupted\n"));
}

} // namespace
} // namespace ferry
