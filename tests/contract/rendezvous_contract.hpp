// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// The contract of `rendezvous` as test cases. They run for every type that
// FERRY_RENDEZVOUS_SUBJECTS lists, which whoever includes this file defines before. A subject
// connects ranks with `static ferry::test::meetings open(int size)`.

#include <ferry/platform/rendezvous.hpp>

#include "contract/meetings.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace ferry::test {

/// Longer than any test takes: nobody is missed before.
inline constexpr nanoseconds unlimited = std::chrono::minutes(5);

/// What came of a meeting on one rank.
using outcome = result<contributions>;

[[nodiscard]] inline outcome meet_as(rendezvous& end, std::string_view key, std::string_view own,
                                     nanoseconds patience) {
  return end.meet(key, as_contribution(own), patience);
}

/// Brings `ranks` of `ends` to a meeting, each on a thread of its own, with their numbers.
[[nodiscard]] inline std::vector<outcome> meet_all(const meetings& ends,
                                                   const std::vector<int>& ranks, const char* key,
                                                   nanoseconds patience) {
  std::vector<std::future<outcome>> coming;
  for (const auto rank : ranks)
    coming.push_back(std::async(std::launch::async, [&, rank] {
      return meet_as(*ends[static_cast<std::size_t>(rank)], key, "from " + std::to_string(rank),
                     patience);
    }));
  std::vector<outcome> outcomes;
  for (auto& each : coming)
    outcomes.push_back(each.get());
  return outcomes;
}

[[nodiscard]] inline std::vector<std::string> texts(const outcome& met) {
  std::vector<std::string> said;
  for (const auto& each : met.value())
    said.push_back(as_text(each));
  return said;
}

TEMPLATE_TEST_CASE("a meeting brings every rank what all brought, rank 0 first",
                   "[contract][rendezvous]", FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(3);

  const auto outcomes = meet_all(ends, {2, 0, 1}, "votes", unlimited);

  const auto expected = std::vector<std::string>{"from 0", "from 1", "from 2"};
  CHECK(texts(outcomes[0]) == expected);
  CHECK(texts(outcomes[1]) == expected);
  CHECK(texts(outcomes[2]) == expected);
  CHECK(ends[2]->rank() == 2);
  CHECK(ends[2]->size() == 3);
}

TEMPLATE_TEST_CASE("a single rank meets itself", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(1);

  CHECK(texts(meet_as(*ends[0], "alone", "", unlimited)) == std::vector<std::string>{""});
}

TEMPLATE_TEST_CASE("a contribution may hold any bytes", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(1);
  auto any = std::string(1 << 20, 'x');
  for (std::size_t i = 0; i < 256; ++i)
    any[i] = static_cast<char>(i);

  CHECK(texts(meet_as(*ends[0], "key/with parts", any, unlimited)).front() == any);
}

TEMPLATE_TEST_CASE("meetings of other names do not mix", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(2);
  auto second = std::async(std::launch::async, [&] {
    auto first_met = meet_as(*ends[1], "one", "b1", unlimited);
    auto second_met = meet_as(*ends[1], "two", "b2", unlimited);
    return texts(first_met).front() + texts(second_met).front();
  });

  const auto one = meet_as(*ends[0], "one", "a1", unlimited);
  const auto two = meet_as(*ends[0], "two", "a2", unlimited);

  CHECK(texts(one) == std::vector<std::string>{"a1", "b1"});
  CHECK(texts(two) == std::vector<std::string>{"a2", "b2"});
  CHECK(second.get() == "a1a2");
}

TEMPLATE_TEST_CASE("ranks that do not come are named to all, and told so when they do",
                   "[contract][rendezvous]", FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(4);

  const auto outcomes = meet_all(ends, {0, 2}, "votes", std::chrono::milliseconds(200));
  const auto late = meet_as(*ends[1], "votes", "sorry", unlimited);

  REQUIRE_FALSE(outcomes[0]);
  CHECK(outcomes[0].error().code == errc::deadline_exceeded);
  CHECK(outcomes[0].error().detail == "rank 1, rank 3 did not come to 'votes' within 200 ms");
  CHECK(outcomes[0].error().rank == 1);
  CHECK(outcomes[1] == outcomes[0]);
  CHECK(late == outcomes[0]);
}

TEMPLATE_TEST_CASE("a poison fails whoever waits and whoever comes, with its cause",
                   "[contract][rendezvous]", FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(3);
  auto waiting =
      std::async(std::launch::async, [&] { return meet_as(*ends[0], "votes", "fine", unlimited); });
  const auto cause = failure{.code = errc::out_of_host_memory,
                             .detail = "no pinned memory\nfor 'blocks.3'",
                             .block = "dit.blocks.3",
                             .vendor_code = 2};

  ends[2]->poison(cause);
  ends[1]->poison({.code = errc::internal, .detail = "too late"});
  const auto failed = waiting.get();
  const auto refused = meet_as(*ends[1], "votes", "fine", unlimited);

  auto expected = cause;
  expected.rank = 2;
  REQUIRE_FALSE(failed);
  CHECK(failed.error() == expected);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == expected);
  CHECK(meet_as(*ends[2], "more", "", unlimited).error() == expected);
}

TEMPLATE_TEST_CASE("what failed the ranks is known to each without a meeting",
                   "[contract][rendezvous]", FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(2);
  const auto before = ends[0]->failed();

  ends[1]->poison({.code = errc::io_failure, .detail = "the disk is full"});

  CHECK_FALSE(before);
  REQUIRE(ends[0]->failed());
  CHECK(ends[0]->failed()->detail == "the disk is full");
  CHECK(ends[0]->failed()->rank == 1);
}

TEMPLATE_TEST_CASE("a rank that leaves is named to those who wait for it", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  auto ends = TestType::open(3);
  auto waiting =
      std::async(std::launch::async, [&] { return meet_as(*ends[0], "votes", "fine", unlimited); });

  ends[1].reset();
  const auto failed = waiting.get();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::transfer_aborted);
  CHECK(failed.error().detail == "rank 1 left before it came to 'votes'");
  CHECK(meet_as(*ends[2], "votes", "fine", unlimited).error() == failed.error());
}

TEMPLATE_TEST_CASE("a rank that leaves after it came is not missed", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  auto ends = TestType::open(2);
  auto leaving = std::async(std::launch::async, [&] {
    auto met = meet_as(*ends[1], "votes", "b", unlimited);
    ends[1].reset();
    return met.has_value();
  });

  const auto met = meet_as(*ends[0], "votes", "a", unlimited);

  CHECK(texts(met) == std::vector<std::string>{"a", "b"});
  CHECK(leaving.get());
}

TEMPLATE_TEST_CASE("a name is used once", "[contract][rendezvous]", FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(1);
  REQUIRE(meet_as(*ends[0], "votes", "", unlimited));

  const auto again = meet_as(*ends[0], "votes", "", unlimited);

  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::invalid_argument);
  CHECK_THAT(again.error().detail, Catch::Contains("rank 0 has been at 'votes' before"));
}

TEMPLATE_TEST_CASE("a contribution that is too large fails all ranks", "[contract][rendezvous]",
                   FERRY_RENDEZVOUS_SUBJECTS) {
  const auto ends = TestType::open(2);
  const auto large = std::string((1 << 20) + 1, 'x');

  const auto refused = meet_as(*ends[1], "votes", large, unlimited);

  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().detail, Catch::Contains("rank 1 brings 1048577 bytes to 'votes'"));
  CHECK(meet_as(*ends[0], "votes", "", unlimited).error() == refused.error());
}

} // namespace ferry::test
