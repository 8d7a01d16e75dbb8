// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/pin_plan.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;

constexpr auto fail = pin_failure_policy::fail;
constexpr auto fall_back = pin_failure_policy::whole_block_fallback;

/// Stores of so many bytes, each of which replaces `replaces` of ordinary memory.
std::vector<pin_candidate> stores(std::vector<std::size_t> sizes, std::size_t replaces = 0) {
  std::vector<pin_candidate> made;
  for (const auto size : sizes)
    made.push_back({"blocks." + std::to_string(made.size()), size, replaces});
  return made;
}

std::vector<bool> pinned(const pin_plan& plan, std::size_t count) {
  std::vector<bool> each;
  for (std::size_t i = 0; i != count; ++i)
    each.push_back(plan.pins(i));
  return each;
}

TEST_CASE("without limits every store is pinned, at its exact size", "[offload][pin_plan][B66]") {
  const auto plan = plan_pinning(stores({1200, 1200, 1200}), {}, {});

  REQUIRE(plan);
  CHECK(pinned(*plan, 3) == std::vector{true, true, true});
  CHECK(plan->bytes() == 3600);
  CHECK(plan->left_pageable() == 0);
}

TEST_CASE("nothing is pinned where it is not wanted or not useful", "[offload][pin_plan][B88]") {
  const auto wanted = GENERATE(true, false);

  const auto plan = plan_pinning(stores({1, 2}), {.wanted = wanted, .useful = !wanted}, {});

  REQUIRE(plan);
  CHECK(pinned(*plan, 2) == std::vector{false, false});
  CHECK(plan->bytes() == 0);
  CHECK(plan->left_pageable() == 0);
}

TEST_CASE("a store without bytes is not pinned", "[offload][pin_plan][B73]") {
  const auto plan = plan_pinning(stores({0, 8}), {}, {});

  REQUIRE(plan);
  CHECK(pinned(*plan, 2) == std::vector{false, true});
  CHECK(plan->left_pageable() == 0);
}

TEST_CASE("a refusal says what was asked, what is allowed and what is pinned already",
          "[offload][pin_plan]") {
  const auto refused =
      plan_pinning(stores({600, 700}), {.budget = 2000, .on_failure = fail}, {.pinned = 800});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_host_memory);
  CHECK(refused.error().block == "blocks.1");
  CHECK_THAT(refused.error().detail,
             Contains("takes 1300 bytes") && Contains("the budget allows 2000") &&
                 Contains("800 are pinned already") && Contains("dlo_pin_budget_gb"));
}

TEST_CASE("a refusal by the host names what limits it", "[offload][pin_plan]") {
  const auto refused = plan_pinning(stores({600, 700}), {.on_failure = fail},
                                    {.available = 1000, .decided_by = "memory.max"});

  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().detail, Contains("takes 1300 bytes") &&
                                         Contains("1000 are available by memory.max") &&
                                         !Contains("dlo_pin_budget_gb"));
}

TEST_CASE("a budget that is used up to the last byte is kept", "[offload][pin_plan]") {
  CHECK(plan_pinning(stores({600, 700}), {.budget = 1300, .on_failure = fail}, {}));
  CHECK(plan_pinning(stores({600, 700}), {.on_failure = fail}, {.available = 1300}));
}

TEST_CASE("under whole_block_fallback what fits is pinned and the rest is counted",
          "[offload][pin_plan][B70]") {
  const auto plan =
      plan_pinning(stores({600, 700, 300}), {.budget = 1000, .on_failure = fall_back}, {});

  REQUIRE(plan);
  CHECK(pinned(*plan, 3) == std::vector{true, false, true});
  CHECK(plan->bytes() == 900);
  CHECK(plan->left_pageable() == 1);
}

TEST_CASE("stores that replace ordinary memory need room for one of them only",
          "[offload][pin_plan][B67]") {
  const pin_wish strict{.on_failure = fail};

  CHECK(plan_pinning(stores({1000, 1000, 1000}, 1000), strict, {.available = 1000}));
  CHECK_FALSE(plan_pinning(stores({1000, 1000, 1000}, 1000), strict, {.available = 999}));
  CHECK_FALSE(plan_pinning(stores({1000, 1000, 1000}, 0), strict, {.available = 2999}));
}

TEST_CASE("where stores are left, staging buffers come before the stores that fit",
          "[offload][pin_plan]") {
  const pin_wish wish{.budget = 1000, .on_failure = fall_back, .staging_bytes = 200};

  const auto plan = plan_pinning(stores({600, 700, 300}), wish, {});

  REQUIRE(plan);
  CHECK(plan->stages());
  CHECK(pinned(*plan, 3) == std::vector{true, false, false});
  CHECK(plan->bytes() == 800);
  CHECK(plan->left_pageable() == 2);
}

TEST_CASE("nothing is staged where every store is pinned, and nothing without room for the buffers",
          "[offload][pin_plan]") {
  const auto all = plan_pinning(stores({600, 700}), {.budget = 1300, .staging_bytes = 200}, {});
  const auto none = plan_pinning(
      stores({600, 100}), {.budget = 150, .on_failure = fall_back, .staging_bytes = 200}, {});

  REQUIRE(all);
  CHECK_FALSE(all->stages());
  CHECK(all->bytes() == 1300);
  REQUIRE(none);
  CHECK_FALSE(none->stages());
  CHECK(pinned(*none, 2) == std::vector{false, true});
}

TEST_CASE("mapped stores that are to be kept are staged, whatever the budget allows",
          "[offload][pin_plan]") {
  const auto policy = GENERATE(fail, fall_back);
  auto both = stores({600, 700});
  both.front().mapped = true;
  pin_wish wish{.budget = 900, .on_failure = policy, .keep_mapped = true, .staging_bytes = 200};

  const auto plan = plan_pinning(both, wish, {});
  wish.budget = 700;
  const auto tight = plan_pinning(both, wish, {});
  wish.keep_mapped = false;
  wish.budget = std::nullopt;
  const auto copied = plan_pinning(both, wish, {});

  REQUIRE(plan);
  CHECK(plan->stages());
  CHECK(pinned(*plan, 2) == std::vector{false, true});
  CHECK(plan->bytes() == 900);
  CHECK(plan->left_pageable() == 0);
  REQUIRE(tight);
  CHECK((tight->stages() || tight->pins(1)));
  REQUIRE(copied);
  CHECK(pinned(*copied, 2) == std::vector{true, true});
}

TEST_CASE("a plan pins no store that it was not asked about", "[offload][pin_plan]") {
  CHECK_FALSE(pin_plan{}.pins(0));
}

} // namespace
} // namespace ferry
