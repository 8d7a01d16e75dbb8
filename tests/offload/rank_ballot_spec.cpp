// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/rank_ballot.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
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
          .weights = {{"blocks.0", "abc"}, {"blocks.1", "def"}}};
}

TEST_CASE("a ballot survives its way to another rank", "[offload][ballot]") {
  CHECK(rank_ballot_from_json(to_json(sample())).value() == sample());
}

TEST_CASE("a damaged ballot is refused by what it lacks", "[offload][ballot]") {
  const std::string upto_slots =
      R"({"version":"1","device":"sim","pipeline":"p","configuration":"{}","slots":"2")";
  for (const auto& text :
       {std::string{}, std::string{"[]"}, std::string{"7"}, std::string{R"({"version":3})"},
        std::string{R"({"version":"1"})"}, upto_slots + "}", upto_slots + R"(,"weights":"abc"})",
        upto_slots + R"(,"weights":["abc"]})", upto_slots + R"(,"weights":[["abc"]]})",
        upto_slots + R"(,"weights":[["abc",3]]})"}) {
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
  ballots[2].version.push_back('0');
  ballots[3].slots.push_back('0');

  const auto refused = agree(ballots);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK(refused.error().rank == 2);
  CHECK_THAT(refused.error().detail, Catch::Contains("rank 2 has version 10, rank 0 1") &&
                                         Catch::Contains("rank 3 has slots 20, rank 0 2"));
}

TEST_CASE("of weights that differ the first block is named", "[offload][ballot]") {
  std::vector ballots(2, sample());
  const auto refused = [&] { return agree(ballots).error().detail; };

  ballots[1].weights[1].digest = "123";
  CHECK_THAT(refused(), Catch::EndsWith("rank 1 has other weights in blocks.1 (123, rank 0 def)"));
  ballots[1].weights[0].digest = "456";
  CHECK_THAT(refused(), Catch::EndsWith("rank 1 has other weights in blocks.0 (456, rank 0 abc)"));
}

TEST_CASE("ranks that gather other blocks differ at the first of them", "[offload][ballot]") {
  std::vector ballots(2, sample());
  const auto refused = [&] { return agree(ballots).error().detail; };

  ballots[1].weights[0].path = "layers.0";
  CHECK_THAT(refused(), Catch::EndsWith("rank 1 has layers.0 where rank 0 has blocks.0"));
  ballots[1].weights = {{"blocks.0", "abc"}};
  CHECK_THAT(refused(), Catch::EndsWith("rank 1 has nothing where rank 0 has blocks.1"));
  std::ranges::swap(ballots[0], ballots[1]);
  CHECK_THAT(refused(), Catch::EndsWith("rank 1 has blocks.1 where rank 0 has nothing"));
}

TEST_CASE("the ballot of a model with thousands of blocks is far below what ranks may say",
          "[offload][ballot]") {
  auto large = sample();
  large.weights.assign(4096, {"transformer.single_transformer_blocks.1234", std::string(16, 'f')});

  CHECK(to_json(large).size() < std::size_t{1} << 19);
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
