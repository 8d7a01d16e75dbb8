// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/nccl_ranks.hpp"

#include "support/rank_team.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The whole runtime over NCCL's communicator, on a fake of NCCL that gathers the memory of threads.
namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::all_gathered;
using test::config_of;

/// Ranks of this process that share their weights through NCCL.
struct nccl_team {
  explicit nccl_team(int size) : joined(size, {.patience = 5s, .to_join = 5s}) {
    for (std::size_t i = 0; i != joined.gpus.size(); ++i)
      ranks.push_back(
          std::make_unique<test::rank>(std::shared_ptr<device>(std::move(joined.gpus[i])),
                                       rank_group{.meeting = joined.meetings[i],
                                                  .gathers = std::move(joined.ends[i]),
                                                  .patience = 5s}));
    joined.gpus.clear();
    joined.ends.clear();
  }

  [[nodiscard]] test::fake_nccl& library() { return *joined.library; }

  /// Runs `act` for every rank, on a thread each, and returns what it says of them.
  std::vector<std::string> all(const std::function<std::string(test::rank&)>& act) {
    std::vector<std::string> said(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != ranks.size(); ++i)
      threads.emplace_back([&, i] { said[i] = act(*ranks[i]); });
    for (auto& each : threads)
      each.join();
    return said;
  }

  test::nccl_ranks joined;
  std::vector<std::unique_ptr<test::rank>> ranks;
};

/// Starts and enables. Returns what went wrong, empty if nothing did.
std::string enabled_on(test::rank& own) {
  if (const auto started = own.subject.start(); !started)
    return describe(started.error());
  const auto enabled = own.subject.enable(own.pipeline, config_of(all_gathered));
  return enabled ? "" : describe(enabled.error());
}

/// Runs a request. Returns what went wrong, empty if nothing did.
std::string requested_of(test::rank& own, int steps) {
  try {
    if (const auto begun = own.begin(steps); !begun)
      return describe(begun.error());
    auto right = own.run_encoder();
    for (int step = 0; step != steps; ++step)
      right = own.run_step() && right;
    if (const auto ended = own.subject.end_request(); !ended)
      return describe(ended.error());
    return right ? "" : "bytes that are not the block's";
  } catch (const ferry_error& error) {
    return describe(error.reason());
  }
}

TEST_CASE("a pipeline whose blocks are gathered through NCCL reads its own bytes on every rank",
          "[actors][ranks][nccl]") {
  const auto size = GENERATE(2, 3);
  nccl_team team(size);

  for (const auto& said : team.all(enabled_on))
    REQUIRE(said.empty());
  for (const auto& said : team.all([](auto& own) { return requested_of(own, 3); }))
    CHECK(said.empty());

  const auto gathers = team.ranks[0]->subject.state()->collectives;
  constexpr int to_connect = 1;
  CHECK(gathers > 0);
  for (int rank = 0; rank != size; ++rank)
    CHECK(team.library().count("ncclAllGather", rank) == static_cast<int>(gathers) + to_connect);
  for (const auto& said : team.all([](auto& own) {
         const auto done = own.subject.disable();
         return done ? "" : describe(done.error());
       }))
    CHECK(said.empty());
  for (const auto& own : team.ranks)
    CHECK(test::has_own_bytes(*own->pipeline));
  team.ranks.clear();
  CHECK(team.library().open_comms() == 0);
}

TEST_CASE("an error that NCCL finds on one rank ends the request of all of them with its name",
          "[actors][ranks][nccl][B99]") {
  nccl_team team(3);
  for (const auto& said : team.all(enabled_on))
    REQUIRE(said.empty());
  for (const auto& said : team.all([](auto& own) { return requested_of(own, 1); }))
    REQUIRE(said.empty());

  team.library().break_off(1, ncclSystemError);

  for (const auto& said : team.all([](auto& own) { return requested_of(own, 3); }))
    CHECK_THAT(said, Contains("rank 1") && Contains("ncclSystemError"));
  for (int rank = 0; rank != 3; ++rank)
    CHECK(team.library().count("ncclCommAbort", rank) <= 1);
  team.ranks.clear();
  CHECK(team.library().open_comms() == 0);
}

TEST_CASE("a gather that NCCL refuses ends the request of all ranks, whichever it is",
          "[actors][ranks][nccl][B100]") {
  const auto which = GENERATE(2, 3, 6, 10); // The first connects the ranks.
  nccl_team team(2);
  team.library().fail("ncclAllGather", 1, which, ncclInternalError);

  const auto said = team.all([](auto& own) {
    auto wrong = enabled_on(own);
    return wrong.empty() ? requested_of(own, 3) : wrong;
  });

  CHECK(team.library().has_failed());
  for (const auto& each : said)
    CHECK_THAT(each, Contains("ncclAllGather") && Contains("rank 1"));
  team.ranks.clear();
  CHECK(team.library().open_comms() == 0);
}

} // namespace
} // namespace ferry
