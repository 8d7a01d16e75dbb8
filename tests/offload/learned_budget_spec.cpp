// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/learned_budget.hpp>

#include "support/catch.hpp"

namespace ferry {
namespace {

constexpr std::uint64_t large = 1'000'000;

TEST_CASE("a budget that has learned nothing keeps nothing", "[offload][learned_budget]") {
  learned_budget budget;
  budget.attach();
  budget.staged(100);

  CHECK(budget.budget(large) == 0);
}

TEST_CASE("a budget is five quarters of the largest amount staged at a time",
          "[offload][learned_budget]") {
  learned_budget budget;
  budget.attach();
  budget.staged(100);
  budget.staged(303);
  budget.unstaged(303);
  budget.staged(50);

  budget.learn();

  CHECK(budget.budget(large) == 503);
}

TEST_CASE("a budget is at most what the device has for it", "[offload][learned_budget]") {
  learned_budget budget;
  budget.attach();
  budget.staged(400);

  budget.learn();

  CHECK(budget.budget(250) == 250);
}

TEST_CASE("a larger peak raises the budget and a smaller one does not lower it",
          "[offload][learned_budget]") {
  learned_budget budget;
  budget.attach();
  budget.staged(100);
  budget.learn();
  budget.staged(100);
  budget.learn();
  CHECK(budget.budget(large) == 250);

  budget.unstaged(150);
  budget.learn();

  CHECK(budget.budget(large) == 250);
}

TEST_CASE("a budget is forgotten with the last stager and not before",
          "[offload][learned_budget]") {
  learned_budget budget;
  budget.attach();
  budget.attach();
  budget.staged(100);
  budget.unstaged(100);
  budget.learn();

  budget.detach();
  CHECK(budget.budget(large) == 125);
  budget.detach();
  CHECK(budget.budget(large) == 0);

  budget.attach();
  budget.learn();
  CHECK(budget.budget(large) == 0);
}

} // namespace
} // namespace ferry
