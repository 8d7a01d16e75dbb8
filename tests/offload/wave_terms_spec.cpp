// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wave_terms.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace ferry {
namespace {

result<void> admit(const std::vector<wave_terms>& ranks) {
  std::vector<std::string> ballots;
  for (const auto& each : ranks)
    ballots.push_back(to_ballot(each));
  return admit_wave(ballots);
}

const std::vector<block_id> some_blocks{block_id{0}, block_id{1}};
const std::vector<block_id> other_blocks{block_id{1}, block_id{0}};

TEST_CASE("ranks with the same steps and blocks make a wave", "[offload][wave]") {
  CHECK(admit({{.steps = 4}, {.steps = 4}}));
  CHECK(admit({{.steps = 4, .blocks = some_blocks}, {.steps = 4, .blocks = some_blocks}}));
  CHECK(admit({{.steps = 4, .passes = 2}, {.steps = 4, .passes = 2}}));
}

TEST_CASE("whatever stands against a wave is named with its rank", "[offload][wave]") {
  const auto refused = admit({{.steps = 4, .blocks = some_blocks},
                              {.steps = 5, .blocks = some_blocks},
                              {.blocks = some_blocks},
                              {.steps = 4, .skips_blocks = true, .blocks = some_blocks},
                              {.steps = 4, .blocks = other_blocks},
                              {.steps = 4},
                              {.steps = 4, .passes = 2, .blocks = some_blocks}});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
  CHECK(refused.error().rank == 1);
  CHECK_THAT(refused.error().detail,
             Catch::Contains("rank 1 takes 5 steps, rank 0 4") &&
                 Catch::Contains("rank 2 does not say how many steps it takes") &&
                 Catch::Contains("rank 3 decides by itself whether blocks run") &&
                 Catch::Contains("rank 4 runs other blocks than rank 0") &&
                 Catch::Contains("rank 5 runs other blocks than rank 0") &&
                 Catch::Contains("rank 6 takes 2 passes a step, rank 0 1"));
}

TEST_CASE("no rank is compared with one that does not say what it takes", "[offload][wave]") {
  const auto rank_0 = GENERATE(to_ballot({}), withdrawn_ballot());

  const auto refused =
      admit_wave(std::vector{rank_0, to_ballot({.steps = 4, .passes = 2, .blocks = some_blocks})});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().rank == 0);
  CHECK_THAT(refused.error().detail, !Catch::Contains("rank 1"));
}

TEST_CASE("a request that was withdrawn without its blocks stands against its wave, and is told "
          "what would have helped",
          "[offload][wave]") {
  const auto refused = admit_wave(std::vector{to_ballot({.steps = 4}), withdrawn_ballot()});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
  CHECK(refused.error().rank == 1);
  CHECK_THAT(refused.error().detail,
             Catch::Contains("rank 1 withdrew its request before its turn and had not said which "
                             "blocks the others run without it (with them they go on)"));
}

TEST_CASE("ranks that all leave the steps out make no wave", "[offload][wave]") {
  const auto refused = admit({{}, {}});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().rank == 0);
}

TEST_CASE("damaged terms are refused by their rank", "[offload][wave]") {
  for (const auto* text : {"", "[]", "{", R"({"steps":3})",
                           R"({"steps":1,"skips_blocks":false,"blocks":"","withdrawn":false})"}) {
    CAPTURE(text);
    const auto refused = admit_wave(std::vector<std::string>{to_ballot({.steps = 1}), text});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::invalid_type);
    CHECK(refused.error().rank == 1);
  }
}

} // namespace
} // namespace ferry
