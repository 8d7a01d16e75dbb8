// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_budget.hpp>

#include "support/catch.hpp"

#include <array>

namespace ferry {
namespace {

using Catch::Contains;

constexpr std::array one_store{pin_candidate{.path = "blocks.0", .bytes = 1000, .replaces = 0}};

/// A budget without limits of the host.
struct open_host {
  explicit open_host(std::optional<std::uint64_t> ceiling) : budget(ceiling) {}

  [[nodiscard]] result<pin_lease> lease(std::uint64_t holder,
                                        std::optional<std::uint64_t> available = {}) {
    return budget.lease(holder, "tenant " + std::to_string(holder), {.stores = one_store},
                        {.available = available});
  }

  host_budget budget;
};

TEST_CASE("leases add up until the ceiling, and what is given back can be leased again",
          "[offload][host_budget]") {
  open_host host{2500};
  REQUIRE(host.lease(1));
  REQUIRE(host.lease(2));
  CHECK(host.budget.pinned() == 2000);

  const auto refused = host.lease(3);

  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().detail, Contains("takes 1000 bytes") && Contains("allows 2500") &&
                                         Contains("2000 are pinned already"));
  CHECK(host.budget.pinned() == 2000);
  CHECK(host.budget.give_back_all(1).size() == 1);
  CHECK(host.lease(3));
}

TEST_CASE("the tighter of ceiling and wish counts", "[offload][host_budget]") {
  host_budget budget{5000};

  CHECK_FALSE(budget.lease(1, "a", {one_store, {.budget = 900}}, {}));
  CHECK(budget.lease(1, "a", {one_store, {.budget = 9000}}, {}));
}

TEST_CASE("a refusal names the option that is the tighter one", "[offload][host_budget]") {
  host_budget budget{800};

  const auto by_runtime = budget.lease(1, "a", {one_store, {.budget = 900}}, {}).error().detail;
  const auto by_wish = budget.lease(1, "a", {one_store, {.budget = 700}}, {}).error().detail;

  CHECK_THAT(by_runtime, Contains("raise runtime_options::pinned_memory") &&
                             Contains("allows 800") && !Contains("dlo_pin_budget_gb"));
  CHECK_THAT(by_wish, Contains("raise dlo_pin_budget_gb") && Contains("allows 700"));
}

TEST_CASE("leases are listed by name", "[offload][host_budget]") {
  open_host host{std::nullopt};
  REQUIRE(host.lease(1));
  REQUIRE(host.lease(2));

  const auto leases = host.budget.leases();

  REQUIRE(leases.size() == 2);
  CHECK(leases[0].who == "tenant 1");
  CHECK(leases[1].bytes == 1000);
}

TEST_CASE("a lease that is being filled is not available to others", "[offload][host_budget]") {
  open_host host{std::nullopt};
  const auto first = host.lease(1, 1500);
  REQUIRE(first);
  CHECK_FALSE(host.lease(2, 1500));

  CHECK(host.budget.settle(first->id, 1000, 0));

  CHECK(host.lease(2, 1500));
}

TEST_CASE("a store that could not be pinned after all is given back when the lease is settled",
          "[offload][host_budget]") {
  open_host host{std::nullopt};
  const auto lease = host.lease(1);
  REQUIRE(lease);

  CHECK(host.budget.settle(lease->id, 400, 0));

  CHECK(host.budget.pinned() == 400);
}

TEST_CASE("the leases of a holder that is gone are taken back, and only those",
          "[offload][host_budget]") {
  open_host host{std::nullopt};
  REQUIRE(host.lease(1));
  REQUIRE(host.lease(2));
  REQUIRE(host.lease(1));

  const auto gone = host.budget.give_back_all(1);

  CHECK(gone.size() == 2);
  CHECK(host.budget.pinned() == 1000);
}

TEST_CASE("a lease that is not held is neither settled nor given back", "[offload][host_budget]") {
  open_host host{std::nullopt};
  const auto lease = host.lease(1);
  REQUIRE(lease);
  REQUIRE(host.budget.give_back_all(1).size() == 1);

  CHECK(host.budget.give_back_all(1).empty());
  CHECK_FALSE(host.budget.settle(lease->id, 0, 0));
}

TEST_CASE("pages are leased beside the stores, and count against the ceiling of both",
          "[offload][host_budget]") {
  host_budget budget{3000};

  const auto both = budget.lease(1, "a", {.stores = one_store, .pages = 1500}, {});
  const auto stores = budget.lease(2, "b", {.stores = one_store}, {});
  const auto pages = budget.lease(2, "b", {.stores = {}, .pages = 501}, {});

  REQUIRE(both);
  CHECK_FALSE(both->no_pages);
  CHECK(budget.pinned() == 1000);
  CHECK(budget.registered() == 1500);
  REQUIRE_FALSE(stores);
  CHECK_THAT(stores.error().detail, Contains("2500 are pinned already"));
  REQUIRE(pages);
  REQUIRE(pages->no_pages);
  CHECK_THAT(pages->no_pages->detail, Contains("501") && Contains("allows 3000"));
}

TEST_CASE("the budget of pinned copies does not concern pages", "[offload][host_budget]") {
  host_budget budget{std::nullopt};
  REQUIRE(budget.lease(1, "a", {.stores = {}, .pages = 5000}, {}));

  const auto pinned = budget.lease(1, "a", {.stores = one_store, .pinning = {.budget = 1000}}, {});

  CHECK(pinned);
}

TEST_CASE("pages that the host has no room for are not leased, the stores are",
          "[offload][host_budget]") {
  host_budget budget{std::nullopt};

  const auto lease = budget.lease(1, "a", {.stores = one_store, .pages = 600},
                                  {.available = 1500, .decided_by = "the container"});

  REQUIRE(lease);
  CHECK(lease->plan.pins(0));
  REQUIRE(lease->no_pages);
  CHECK_THAT(lease->no_pages->detail, Contains("1500 are available by the container"));
  CHECK(budget.registered() == 0);
}

TEST_CASE("pages that were not registered after all are given back when the lease is settled",
          "[offload][host_budget]") {
  host_budget budget{std::nullopt};
  const auto lease = budget.lease(1, "a", {.stores = {}, .pages = 600}, {.available = 1000});
  REQUIRE(lease);
  CHECK(budget.lease(2, "b", {.stores = {}, .pages = 600}, {.available = 1000})->no_pages);

  CHECK(budget.settle(lease->id, 0, 0));

  CHECK(budget.registered() == 0);
  CHECK_FALSE(budget.lease(2, "b", {.stores = {}, .pages = 600}, {.available = 1000})->no_pages);
}

} // namespace
} // namespace ferry
