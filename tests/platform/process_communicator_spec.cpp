// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/child_processes.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {
namespace {

using Catch::Contains;

constexpr long no_end_ms = 300'000;

struct mishap {
  std::string_view what = "nothing";
  long when = 0;
  int rank = 1;
  std::optional<int> slow = std::nullopt; ///< Learns late what has become of a group.
  long meeting_patience_ms = no_end_ms;
  long gather_patience_ms = no_end_ms;
};

/// Three processes that join and gather, one of which meets with a mishap.
class three_ranks {
public:
  explicit three_ranks(const mishap& planned) {
    for (int rank = 0; rank < 3; ++rank) {
      auto what = std::string(rank == planned.rank ? planned.what : "nothing");
      if (rank == planned.slow)
        what = "learn late";
      processes_.start({FERRY_RANK_PROCESS, directory_.path().string(), std::to_string(rank), "3",
                        std::to_string(planned.meeting_patience_ms),
                        std::to_string(planned.gather_patience_ms), what,
                        std::to_string(planned.when)});
    }
  }

  [[nodiscard]] process_end wait(int rank) {
    return processes_.wait(static_cast<std::size_t>(rank));
  }
  [[nodiscard]] std::vector<process_end> wait_for(const std::vector<int>& ranks) {
    std::vector<process_end> ends;
    for (const auto rank : ranks)
      ends.push_back(wait(rank));
    return ends;
  }

private:
  scratch_directory directory_;
  child_processes processes_;
};

TEST_CASE("ranks that are processes gather each other's shards", "[process]") {
  three_ranks ranks{{}};

  for (const auto& end : ranks.wait_for({0, 1, 2})) {
    INFO(end.out);
    CHECK(end.code == 0);
  }
}

TEST_CASE("a process that is killed in a collective ends the others with its rank", "[process]") {
  const auto killed = GENERATE(0, 1, 2);
  const auto round = GENERATE(0, 7);
  CAPTURE(killed, round);
  three_ranks ranks{{.what = "die in a gather", .when = round, .rank = killed}};

  const auto others = ranks.wait_for({(killed + 1) % 3, (killed + 2) % 3});

  CHECK(ranks.wait(killed).signal == SIGKILL);
  for (const auto& end : others) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("transfer_aborted: the process of rank " + std::to_string(killed) +
                                 " has ended"));
  }
}

TEST_CASE("a process that is killed is blamed, not one that left because of it", "[process]") {
  // Rank 0 learns of the death in the other group, and leaves while rank 1 waits in this one.
  three_ranks ranks{{.what = "die behind its part", .when = 7, .rank = 2, .slow = 0}};

  for (const auto& end : ranks.wait_for({0, 1})) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("transfer_aborted: the process of rank 2 has ended"));
  }
}

TEST_CASE("a process that is killed after it left is missed by what it still owed", "[process]") {
  three_ranks ranks{
      {.what = "leave behind gathers and die", .when = 7, .rank = 1, .gather_patience_ms = 5000}};

  for (const auto& end : ranks.wait_for({0, 2})) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("transfer_aborted: the process of rank 1 has ended"));
  }
}

TEST_CASE("a process that is killed before it is announced is named once the patience is over",
          "[process]") {
  three_ranks ranks{{.what = "die at a store call", .when = 1, .meeting_patience_ms = 2000}};

  for (const auto& end : ranks.wait_for({0, 2})) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("deadline_exceeded: rank 1 did not join within 2 s; start all "
                                 "with the same MASTER_ADDR"));
  }
}

TEST_CASE("a process that is killed at any step after it was announced ends the others with its "
          "rank, and leaves nothing in them",
          "[process]") {
  const auto whose = GENERATE(0, 1, 2);
  auto killed = 0;
  constexpr long first_call_when_announced = 2;
  for (long call = first_call_when_announced;; ++call) {
    CAPTURE(whose, call);
    three_ranks ranks{{.what = "die at a store call", .when = call, .rank = whose}};
    const auto begun = std::chrono::steady_clock::now();
    const auto others = ranks.wait_for({(whose + 1) % 3, (whose + 2) % 3});
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
    if (ranks.wait(whose).signal != SIGKILL)
      break;
    ++killed;
    for (const auto& end : others) {
      CHECK(end.code == 1);
      CHECK_THAT(end.out, Contains("transfer_aborted: the process of rank " +
                                   std::to_string(whose) + " has ended"));
    }
  }
  CHECK(killed > 10);
}

TEST_CASE("an abort ends other processes with its cause", "[process]") {
  three_ranks ranks{{.what = "abort", .when = 3, .rank = 2}};

  for (const auto& end : ranks.wait_for({0, 1, 2})) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("io_failure: the disk is full") && Contains("rank 2"));
  }
}

TEST_CASE("a process that hangs is named once the patience of the others is over", "[process]") {
  three_ranks ranks{{.what = "stop", .when = 3, .gather_patience_ms = 2000}};

  for (const auto& end : ranks.wait_for({0, 2})) {
    CHECK(end.code == 1);
    CHECK_THAT(end.out, Contains("deadline_exceeded: rank 1 did not arrive at collective 4"));
  }
}

} // namespace
} // namespace ferry::test
