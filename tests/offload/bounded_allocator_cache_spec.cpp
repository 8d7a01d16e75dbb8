// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/bounded_allocator_cache.hpp>

#include "support/catch.hpp"

#include <limits>
#include <type_traits>
#include <utility>

namespace ferry {
namespace {

static_assert(!std::is_copy_constructible_v<allocator_cache>);

/// Says what it is told to, and counts how often it was released.
class fake_cache final : public allocator_cache {
public:
  explicit fake_cache(cache_telemetry says) : says_(says) {}

  result<cache_telemetry> telemetry() const override { return says_; }
  void release() override { ++releases; }
  void say(result<cache_telemetry> what) { says_ = std::move(what); }

  int releases = 0;

private:
  result<cache_telemetry> says_;
};

constexpr cache_telemetry plenty{.free = 500, .total = 1000, .reserved = 300, .allocated = 100};

TEST_CASE("a cache within its bounds is kept", "[offload][retention]") {
  fake_cache cache{plenty};
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK_FALSE(policy.release_if_needed(false));

  CHECK(cache.releases == 0);
}

TEST_CASE("force releases a cache within its bounds", "[offload][retention]") {
  fake_cache cache{plenty};
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK(policy.release_if_needed(true));

  CHECK(cache.releases == 1);
}

TEST_CASE("more cached than a quarter of the device is released, as much is kept",
          "[offload][retention]") {
  const auto [reserved, released] =
      GENERATE(table<std::uint64_t, bool>({{350, false}, {351, true}, {99, false}}));
  fake_cache cache{{.free = 500, .total = 1003, .reserved = reserved, .allocated = 100}};
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK(policy.release_if_needed(false) == released);
}

TEST_CASE("less free than a twentieth of the device releases, as much does not",
          "[offload][retention]") {
  const auto [free, released] = GENERATE(table<std::uint64_t, bool>({{50, false}, {49, true}}));
  fake_cache cache{{.free = free, .total = 1019, .reserved = 100, .allocated = 100}};
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK(policy.release_if_needed(false) == released);
}

TEST_CASE("a cache that does not say how full it is is released", "[offload][retention]") {
  fake_cache cache{plenty};
  cache.say(tl::unexpected(failure{errc::unsupported, "no telemetry"}));
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK(policy.release_if_needed(false));
}

TEST_CASE("bounds that are no fractions are refused by name", "[offload][retention]") {
  const auto wrong = GENERATE(-0.01, 1.01, std::numeric_limits<double>::quiet_NaN());
  fake_cache cache{plenty};

  CHECK_THROWS_WITH(bounded_allocator_cache(cache, {.max_cached_fraction = wrong}, nullptr),
                    Catch::Contains("max_cached_fraction is "));
  CHECK_THROWS_WITH(bounded_allocator_cache(cache, {.min_free_fraction = wrong}, nullptr),
                    Catch::Contains("min_free_fraction is "));
  CHECK_NOTHROW(bounded_allocator_cache(cache, {0.0, 1.0}, nullptr));
}

TEST_CASE("a learned budget counts up to the bound on what is cached", "[offload][retention]") {
  const auto [fraction, kept] = GENERATE(std::pair{0.2, true}, std::pair{0.19, false});
  fake_cache cache{plenty};
  const auto learned = std::make_shared<learned_budget>();
  bounded_allocator_cache policy{cache, {.max_cached_fraction = fraction}, learned};
  learned->attach();
  learned->staged(400);
  learned->learn();

  CHECK(policy.release_if_needed(false) != kept);
}

TEST_CASE("a peak counts from the decision after the one that follows it", "[offload][retention]") {
  fake_cache cache{plenty};
  const auto learned = std::make_shared<learned_budget>();
  bounded_allocator_cache policy{cache, {}, learned};
  learned->attach();
  learned->staged(400);

  CHECK(policy.release_if_needed(false));
  CHECK_FALSE(policy.release_if_needed(false));
}

TEST_CASE("a forced release learns as well", "[offload][retention]") {
  fake_cache cache{plenty};
  const auto learned = std::make_shared<learned_budget>();
  bounded_allocator_cache policy{cache, {}, learned};
  learned->attach();
  learned->staged(400);

  CHECK(policy.release_if_needed(true));

  CHECK(learned->budget(1000) == 500);
}

} // namespace
} // namespace ferry
