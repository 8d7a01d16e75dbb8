// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/rank_ballot.hpp>

#include "support/catch.hpp"

#include <string_view>
#include <vector>

namespace ferry {
namespace {

rank_ballot sample() {
  return {.version = "1",
          .device = "cuda",
          .pipeline = "test.pipeline",
          .configuration = "{}",
          .slots = "2",
          .weights = "abc"};
}

TEST_CASE("a ballot survives its way to another rank", "[offload][ballot]") {
  CHECK(rank_ballot_from_json(to_json(sample())).value() == sample());
}

TEST_CASE("a damaged ballot is refused by what it lacks", "[offload][ballot]") {
  for (const auto* text : {"", "[]", "7", R"({"version":3})", R"({"version":"1"})"}) {
    CAPTURE(text);
    CHECK(rank_ballot_from_json(text).error().code == errc::invalid_type);
  }
  CHECK_THAT(rank_ballot_from_json(R"({"version":"1"})").error().detail,
             Catch::Contains("lacks device"));
}

TEST_CASE("equal ballots agree", "[offload][ballot]") {
  CHECK(agree(std::vector{sample()}));
  CHECK(agree(std::vector{sample(), sample(), sample()}));
}

TEST_CASE("whatever differs is named with the ranks, and the first of them is the cause",
          "[offload][ballot]") {
  std::vector ballots(4, sample());
  ballots[2].version = "2";
  ballots[3].weights = "def";

  const auto refused = agree(ballots);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK(refused.error().rank == 2);
  CHECK_THAT(refused.error().detail, Catch::Contains("rank 2 has version 2, rank 0 1") &&
                                         Catch::Contains("rank 3 has weights def, rank 0 abc"));
}

TEST_CASE("devices of one kind agree, whatever their numbers", "[offload][ballot]") {
  const auto on = [](std::string_view device) {
    return make_ballot(device, "test.pipeline", {}, 2, {});
  };

  CHECK(agree(std::vector{on("cuda:0"), on("cuda:1")}));
  const auto refused = agree(std::vector{on("cuda:0"), on("host")});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().detail, Catch::Contains("rank 1 has device host, rank 0 cuda"));
}

} // namespace
} // namespace ferry
