// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/life_plans.hpp"
#include "support/rank_team.hpp"
#include "support/supervised_life.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using namespace test;

/// What became of one rank.
struct rank_end {
  std::optional<failure> cause; ///< The first thing that failed.
  bool ordinary = false;        ///< The pipeline is, with its weights.
};

/// Starts, enables, runs a request and goes.
rank_end live(rank_team& ranks, std::size_t number, const offload_config& config) {
  auto& own = ranks[number];
  rank_end end;
  const auto succeeds = [&end](const auto& outcome) {
    if (!outcome && !end.cause)
      end.cause = outcome.error();
    return outcome.has_value();
  };
  try {
    if (succeeds(own.subject.start()) && succeeds(own.subject.enable(own.pipeline, config)) &&
        succeeds(own.begin(1))) {
      static_cast<void>(own.run_step());
      static_cast<void>(succeeds(own.subject.end_request()));
    }
  } catch (const ferry_error& e) {
    if (!end.cause)
      end.cause = e.reason();
  }
  auto stopped = own.subject.stop(10s);
  for (int tries = 0; !stopped && tries != 2; ++tries)
    stopped = own.subject.stop(10s);
  const auto pipeline = own.pipeline;
  ranks.end(number);
  end.ordinary = stopped && pipeline->hook_count() == 0 && has_own_bytes(*pipeline);
  return end;
}

/// Returns whether whoever did not do his work says that it was rank `whose`. That rank itself may
/// have done its own before.
bool all_blame(const std::vector<rank_end>& ends, std::size_t whose) {
  for (std::size_t i = 0; i != ends.size(); ++i)
    if (i != whose && ends[i].cause && ends[i].cause->rank != static_cast<int>(whose))
      return false;
  return true;
}

void check_nothing_is_left(rank_team& ranks) {
  for (std::size_t i = 0; i != ranks.size(); ++i) {
    CAPTURE(i);
    const auto left = ranks.sim(i).counters();
    CHECK(left.device_bytes == 0);
    CHECK(left.pinned_bytes == 0);
    CHECK(left.streams == 0);
    CHECK(left.events == 0);
  }
}

/// Makes every call of a kind of one rank's device fail in turn. Returns how many of them made the
/// rank fail before it went.
std::uint64_t at_every_call(int size, std::size_t whose, sim_fault fault,
                            std::chrono::milliseconds patience, std::size_t chunk) {
  std::uint64_t failed = 0;
  for (;; ++fault.after) {
    rank_team ranks(size, kind::sim, {}, nullptr, gather_pipelining::overlapped, patience);
    ranks.sim(whose).inject(fault);
    std::vector<rank_end> ends(ranks.size());
    const auto begun = std::chrono::steady_clock::now();
    ranks.all([&](rank&, std::size_t i) {
      ends[i] = live(ranks, i, config_of(all_gathered, chunk));
      return true;
    });
    const auto took = std::chrono::steady_clock::now() - begun;
    const auto struck = ranks.sim(whose).cancel_failure();

    INFO("device call " << fault.after << " of rank " << whose << " fails, effect "
                        << static_cast<int>(fault.effect));
    std::string became;
    for (const auto& each : ends)
      became += (each.cause ? describe(*each.cause) : "done") + "; ";
    INFO(became);
    for (const auto& each : ends)
      CHECK(each.ordinary);
    CHECK(took < 5s);
    check_nothing_is_left(ranks);
    if (fault.effect == fault_effect::once)
      CHECK(ranks.races() == 0);
    if (!struck) {
      for (const auto& each : ends)
        REQUIRE_FALSE(each.cause);
      return failed;
    }
    CHECK(all_blame(ends, whose));
    failed += ends[whose].cause ? 1U : 0U;
  }
}

TEST_CASE("whatever device call fails on one of several ranks, all end with its cause",
          "[actors][ranks][faults]") {
  std::uint64_t points = 0;
  for (const std::size_t whose : {0U, 1U})
    for (const auto effect : {fault_effect::once, fault_effect::sticky, fault_effect::deferred})
      points += at_every_call(2, whose, {.effect = effect}, 20s, 2048);

  WARN(points << " device calls made a rank fail, one in each life of two ranks");
  CHECK(points > 400);
}

TEST_CASE("whatever gather a rank dies in or never comes to, all end with its cause",
          "[actors][ranks][faults]") {
  std::uint64_t points = 0;
  for (const std::size_t whose : {0U, 1U, 2U}) {
    points += at_every_call(3, whose, {.call = device_call::gather, .effect = fault_effect::death},
                            20s, 2048);
    points += at_every_call(
        3, whose, {.call = device_call::gather, .effect = fault_effect::absence}, 300ms, 1 << 20);
  }

  WARN(points << " gathers made a rank fail, one in each life of three ranks");
  CHECK(points > 25);
}

/// What became of a rank of which, or of another of which, a message failed.
struct life_end {
  bool succeeded = false;
  std::optional<failure> cause;
  std::string struck; ///< Which message, if it was one of this rank.
  std::vector<std::string> harm;
};

struct failing_message {
  std::size_t whose = 0;
  std::uint64_t after = 0;
  message_fault kind{};
};

std::vector<std::string> every_block() {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i != encoder_blocks; ++i)
    paths.push_back("text_encoder.block." + std::to_string(i));
  for (std::size_t i = 0; i != dit_blocks; ++i)
    paths.push_back("transformer.blocks." + std::to_string(i));
  return paths;
}

life_end life_of(std::size_t number, rank_ends own, const failing_message& fault) {
  const life_plan what{.pipeline = nullptr, // Each rank has its own.
                       .config = config_of(all_gathered, 2048),
                       .calls = every_block(),
                       .stages = {},
                       .updated = "transformer"};
  supervised_life life{rank_model(), own.gpu, what, std::move(own.group)};
  if (number == fault.whose)
    life.faults().fail_after(fault.after, fault.kind);
  life_end end;
  end.succeeded = life.live();
  end.cause = life.first_failure();
  end.struck = life.faults().what();
  end.harm = life.recover();
  for (auto& each : life.leftovers())
    end.harm.push_back(std::move(each));
  return end;
}

/// Makes every message of one rank's life fail in turn. Returns how many did.
std::uint64_t at_every_message(failing_message fault) {
  for (;; ++fault.after) {
    auto ranks = sim_ranks(2);
    std::vector<life_end> ends(ranks.size());
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != ranks.size(); ++i)
      threads.emplace_back([&, i] { ends[i] = life_of(i, std::move(ranks[i]), fault); });
    for (auto& each : threads)
      each.join();
    const auto took = std::chrono::steady_clock::now() - begun;

    const auto& struck = ends[fault.whose];
    const auto& other = ends[1 - fault.whose];
    INFO("message " << fault.after << " of rank " << fault.whose << " (" << struck.struck << ") is "
                    << describe(fault.kind));
    for (const auto& each : ends) {
      INFO((each.cause ? describe(*each.cause) : "done"));
      CHECK(joined(each.harm) == "");
    }
    CHECK(took < 5s);
    if (struck.struck.empty()) {
      REQUIRE(struck.succeeded);
      REQUIRE(other.succeeded);
      return fault.after;
    }
    if (other.cause)
      CHECK(other.cause->rank == static_cast<int>(fault.whose));
    else
      CHECK(other.succeeded);
  }
}

TEST_CASE("whatever message of a rank fails, no rank waits for ever", "[actors][ranks][faults]") {
  const auto kind = GENERATE(message_fault::lost, message_fault::slow, message_fault::late,
                             message_fault::refused, message_fault::killed);
  std::uint64_t points = 0;
  for (const std::size_t whose : {0U, 1U})
    points += at_every_message({.whose = whose, .kind = kind});

  WARN(points << " messages were " << describe(kind) << ", one in each life of two ranks");
  CHECK(points > 200);
}

} // namespace
} // namespace ferry
