// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "interrupt_watch.hpp"
#include "launched_ranks.hpp"
#include "run_options.hpp"
#include "run_program.hpp"
#include "run_rank.hpp"
#include "run_setup.hpp"
#include "support/scratch_directory.hpp"
#include "support/taken_port.hpp"
#include "torch/catch.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

/// How far a model gets in the run in which it breaks.
enum class moment : std::uint8_t { before_its_gathers, in_a_step, behind_its_gathers };

/// What a model does that breaks.
enum class harm : std::uint8_t {
  throws,
  stops, ///< Its process, until it is told to go on.
};

/// A model that breaks.
class breaking_model final : public diffusion_model {
public:
  /// @param run counted from 1; a warm-up is the first
  breaking_model(std::unique_ptr<diffusion_model> inner, int run, moment when, harm how)
      : inner_(std::move(inner)), left_(run), when_(when), how_(how) {}

  [[nodiscard]] torch_pipeline_description description() const override {
    return inner_->description();
  }
  [[nodiscard]] request defaults() const override { return inner_->defaults(); }
  [[nodiscard]] std::optional<request> warm_up_request() const override {
    return inner_->warm_up_request();
  }
  [[nodiscard]] std::map<std::string, std::size_t>
  passes_per_step(const request& asked) const override {
    return inner_->passes_per_step(asked);
  }
  [[nodiscard]] result<request> inputs_of(const reference_run& reference) const override {
    return inner_->inputs_of(reference);
  }
  [[nodiscard]] result<void> check(const request& asked) const override {
    return inner_->check(asked);
  }
  void run_together(std::span<grouped_request> group, const group_options& how) const override {
    auto breaks = --left_ == 0;
    if (breaks && when_ == moment::before_its_gathers)
      break_down();
    auto breaking = how;
    breaking.step_ended = [&] {
      if (how.step_ended)
        how.step_ended();
      if (when_ == moment::in_a_step && std::exchange(breaks, false))
        break_down();
    };
    inner_->run_together(group, breaking);
    if (breaks && when_ == moment::behind_its_gathers) {
      try {
        break_down();
      } catch (const std::runtime_error&) {
        group.front().failed = std::current_exception();
      }
    }
  }

private:
  void break_down() const {
    std::this_thread::sleep_for(100ms); // The others come to where they wait.
    std::cerr << "the model breaks\n";
    if (how_ == harm::throws)
      throw std::runtime_error("no such luck");
    static_cast<void>(::raise(SIGSTOP));
  }

  std::unique_ptr<diffusion_model> inner_;
  mutable int left_;
  moment when_;
  harm how_;
};

/// Which rank breaks, and when.
struct breakage {
  int rank = 1;
  int run = 1;
  moment when{};
  bool series = false; ///< There are three requests, and a warm-up.
  harm how = harm::throws;
};

run_options options_of(const std::string& device, const breakage& what,
                       const test::scratch_directory& scratch) {
  run_options options;
  options.checkpoint = std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny";
  options.config = R"({"mode":"layer","components":["dit","text_encoder"],
      "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
  options.device = device;
  const std::string small = R"({"steps":2,"size":"32x32","frames":1})";
  if (what.series) {
    options.requests = scratch.write("r.jsonl", small + "\n" + small + "\n" + small + "\n");
  } else {
    options.steps = 2;
    options.size = "32x32";
    options.frames = 1;
  }
  return options;
}

/// Runs the ranks of this process, of which one may break.
std::vector<rank_outcome> run(const run_options& options, const breakage& what) {
  interrupt_watch interrupt;
  launched_ranks others(patience_to_join);
  auto setup = set_up(options, others).value();
  std::vector<rank_outcome> outcomes(setup.here.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != outcomes.size(); ++i) {
    auto& own = setup.here[i];
    if (own.number == what.rank)
      own.model =
          std::make_unique<breaking_model>(std::move(own.model), what.run, what.when, what.how);
    threads.emplace_back(
        [&, i] { outcomes[i] = run_rank(options, setup, setup.here[i], interrupt, nullptr); });
  }
  for (auto& each : threads)
    each.join();
  return outcomes;
}

const std::vector<breakage> breakages{
    {.when = moment::before_its_gathers},
    {.rank = 0, .when = moment::in_a_step},
    {.rank = 2, .when = moment::behind_its_gathers},
    {.run = 1, .when = moment::before_its_gathers, .series = true},
    {.run = 2, .when = moment::in_a_step, .series = true},
    {.run = 2, .when = moment::behind_its_gathers, .series = true},
    {.run = 4, .when = moment::behind_its_gathers, .series = true},
};

TEST_CASE("a request that throws in the model of one rank ends the run of all with its cause and "
          "number, wherever the others wait",
          "[app][ranks][faults]") {
  const auto* device = GENERATE("sim", "host");
  const auto what = GENERATE(from_range(breakages));
  CAPTURE(device, what.rank, what.run, static_cast<int>(what.when), what.series);
  const test::scratch_directory scratch;
  auto options = options_of(device, what, scratch);
  options.ranks = 3;
  const auto begun = std::chrono::steady_clock::now();

  const auto outcomes = run(options, what);

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  for (const auto& each : outcomes) {
    REQUIRE(each.reason);
    INFO(describe(*each.reason));
    CHECK(each.thrown);
    CHECK(each.reason->rank == what.rank);
    CHECK_THAT(each.reason->detail, Contains("no such luck"));
  }
}

constexpr auto breakage_variable = "FERRY_TEST_BREAKAGE";

/// A rank of the tests below, in a process of its own.
TEST_CASE("a rank that a test started", "[.rank]") {
  std::istringstream words(std::getenv(breakage_variable));
  breakage what;
  int when = 0;
  int how = 0;
  words >> what.rank >> what.run >> when >> what.series >> how;
  what.when = static_cast<moment>(when);
  what.how = static_cast<harm>(how);
  const test::scratch_directory scratch;

  const auto outcome = run(options_of("host", what, scratch), what).front();

  std::cerr << (outcome.reason ? describe(*outcome.reason) : "done") << '\n';
  CHECK(outcome.thrown);
}

/// Starts three processes that are ranks, of which one breaks, and waits until it does.
std::vector<std::unique_ptr<test::running_program>> start(const breakage& what) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto port = std::to_string(test::free_port());
  std::ostringstream words;
  words << breakage_variable << '=' << what.rank << ' ' << what.run << ' '
        << static_cast<int>(what.when) << ' ' << what.series << ' ' << static_cast<int>(what.how);
  std::vector<std::unique_ptr<test::running_program>> ranks;
  for (const std::string rank : {"0", "1", "2"})
    ranks.push_back(std::make_unique<test::running_program>(
        std::vector<std::string>{"[.rank]"},
        std::vector<std::string>{"RANK=" + rank, "LOCAL_RANK=" + rank, "WORLD_SIZE=3",
                                 "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=" + port, words.str()},
        self));
  ranks[static_cast<std::size_t>(what.rank)]->wait_until_it_says("the model breaks");
  return ranks;
}

TEST_CASE("a request that throws in the model of one process ends those of all with its cause and "
          "number, wherever the others wait",
          "[app][ranks][faults]") {
  const auto what = GENERATE(from_range(std::vector{breakages[1], breakages[2], breakages[5]}));
  CAPTURE(what.rank, what.run, static_cast<int>(what.when), what.series);

  const auto ranks = start(what);
  const auto begun = std::chrono::steady_clock::now();
  for (const auto& each : ranks) {
    const auto done = each->finish();
    INFO(done.out);
    CHECK(done.code == 0);
    CHECK_THAT(done.err,
               Contains("no such luck") && Contains("(rank " + std::to_string(what.rank) + ")"));
  }

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
}

/// Lets a stopped process go on, by itself after 10 s.
class stopped_process {
public:
  explicit stopped_process(test::running_program& process)
      : waking_(std::async(std::launch::async, [&process, told = told_.get_future()] {
          const auto in_time = told.wait_for(10s) == std::future_status::ready;
          process.send(SIGCONT);
          return in_time;
        })) {}

  /// Returns whether it was still stopped.
  bool wake() {
    told_.set_value();
    return waking_.get();
  }

private:
  std::promise<void> told_;
  std::future<bool> waking_;
};

TEST_CASE(
    "an interrupt of one process ends it at once, and the others with its number, wherever it "
    "waits for a rank that comes to no end",
    "[app][ranks][faults]") {
  const auto interrupted = GENERATE(0U, 1U);
  auto what = GENERATE(from_range(std::vector<breakage>{
      {.rank = 2, .run = 1, .when = moment::before_its_gathers, .series = true}, // The warm-up.
      {.rank = 2, .run = 2, .when = moment::in_a_step, .series = true},
      {.rank = 2, .run = 2, .when = moment::behind_its_gathers, .series = true}, // The next wave.
      {.rank = 2, .run = 4, .when = moment::behind_its_gathers, .series = true}, // The end.
  }));
  what.how = harm::stops;
  CAPTURE(interrupted, what.run, static_cast<int>(what.when));
  const auto ranks = start(what);
  stopped_process last(*ranks[2]);

  ranks[interrupted]->send(SIGTERM);

  const auto cause = "(rank " + std::to_string(interrupted) + ")";
  CHECK_THAT(ranks[interrupted]->finish().err, Contains("the run was interrupted " + cause));
  CHECK(last.wake());
  CHECK_THAT(ranks[1 - interrupted]->finish().err, Contains("the run was interrupted " + cause));
  CHECK_THAT(ranks[2]->finish().err, Contains(cause));
}

} // namespace
} // namespace ferry
