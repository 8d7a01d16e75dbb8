// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_registration.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/read_only_pages.hpp"
#include "support/standard_error.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::read_only_pages;

using ranges = std::vector<const_bytes>;

static_assert(!std::is_copy_constructible_v<host_registration>);
static_assert(!std::is_move_constructible_v<host_registration>);

bool same(const ranges& a, const ranges& b) {
  return std::ranges::equal(a, b, [](const_bytes x, const_bytes y) {
    return x.data() == y.data() && x.size() == y.size();
  });
}

const auto page = page_bytes();

/// Returns bytes at an address that nobody reads.
const_bytes at(std::uintptr_t begin, std::size_t bytes) {
  return {reinterpret_cast<const std::byte*>(begin), bytes};
}

TEST_CASE("regions are widened to whole pages", "[offload][host_registration]") {
  const read_only_pages pages{4};

  const auto planned = plan_registration(
      std::vector<mapped_region>{{"a", pages.bytes().subspan(page + 10, page)}}, std::nullopt);

  REQUIRE(planned);
  CHECK(same(*planned, {pages.at(1, 2)}));
}

TEST_CASE("regions of one file that overlap or touch are joined, those of two files never are",
          "[offload][host_registration]") {
  const read_only_pages pages{8};
  const std::vector<mapped_region> regions{{"b", pages.at(5)},
                                           {"a", pages.at(1).subspan(10)},
                                           {"a", pages.at(0).first(100)},
                                           {"a", pages.at(1, 2)},
                                           {"a", pages.at(4)},
                                           {"b", pages.at(6).first(0)}};

  const auto planned = plan_registration(regions, std::nullopt);

  REQUIRE(planned);
  CHECK(same(*planned, {pages.at(0, 3), pages.at(4), pages.at(5)}));
}

TEST_CASE("a region that may be written is refused by its file", "[offload][host_registration]") {
  const read_only_pages pages{2};

  const auto planned = plan_registration(
      std::vector<mapped_region>{{"good.bin", pages.at(0)}, {"bad.bin", pages.at(1), false}},
      std::nullopt);

  REQUIRE_FALSE(planned);
  CHECK(planned.error().code == errc::invalid_argument);
  CHECK_THAT(planned.error().detail, Contains("bad.bin") && Contains("read-only"));
}

TEST_CASE("a region that is no range of addresses is refused by its file",
          "[offload][host_registration]") {
  const auto wrong = GENERATE(at(0, 10), at(page, ~std::size_t{0} - page));

  const auto planned =
      plan_registration(std::vector<mapped_region>{{"odd.bin", wrong}}, std::nullopt);

  REQUIRE_FALSE(planned);
  CHECK(planned.error().code == errc::invalid_argument);
  CHECK_THAT(planned.error().detail, Contains("odd.bin"));
}

TEST_CASE("the ceiling counts whole pages, once for what overlaps",
          "[offload][host_registration]") {
  const read_only_pages pages{3};
  const std::vector<mapped_region> regions{{"a", pages.at(0, 2)},
                                           {"a", pages.at(1, 2).first(page + 1)}};

  CHECK(plan_registration(regions, 3 * page));
  const auto refused = plan_registration(regions, 3 * page - 1);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_host_memory);
  CHECK_THAT(refused.error().detail, Contains(std::to_string(3 * page)) &&
                                         Contains("at most " + std::to_string(3 * page - 1)) &&
                                         Contains("dlo_host_registration_limit_gib"));
}

TEST_CASE("regions of which nothing is left are refused", "[offload][host_registration]") {
  const auto planned =
      plan_registration(std::vector<mapped_region>{{"empty", const_bytes{}}}, std::nullopt);

  REQUIRE_FALSE(planned);
  CHECK_THAT(planned.error().detail, Contains("no mapped region"));
}

/// Weights in two files of two and of one page, leased, and a device to register them with.
struct leased {
  explicit leased(bool read_only = true)
      : lease(host_lease::open(
                  {.resolution_id = {},
                   .tensors = {},
                   .regions = {{"a", first.bytes(), true}, {"b", second.bytes(), read_only}}},
                  {}, {{[count = closed] { ++*count; }}, {}})
                  .value()) {}

  [[nodiscard]] result<std::unique_ptr<host_registration>>
  open(std::optional<std::uint64_t> ceiling = std::nullopt) {
    return host_registration::open(gpu, std::move(lease), sources, ceiling);
  }
  [[nodiscard]] std::uint64_t registered() const { return gpu->counters().registered_bytes; }

  std::shared_ptr<int> closed = std::make_shared<int>(0);
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  read_only_pages first{2};
  read_only_pages second{1};
  ranges sources{first.bytes().subspan(100, page), second.bytes(), {}};
  std::shared_ptr<host_lease> lease;
};

TEST_CASE("all pages of a lease are registered, and given back before it ends",
          "[offload][host_registration]") {
  leased of;

  auto opened = of.open(3 * page);

  REQUIRE(opened);
  CHECK((*opened)->bytes() == 3 * page);
  CHECK(of.registered() == 3 * page);
  CHECK((*opened)->covers(of.sources[0]));
  CHECK_FALSE((*opened)->covers({of.first.bytes().data(), 2 * page + 1}));
  CHECK((*opened)->close().empty());
  CHECK(of.registered() == 0);
  CHECK((*opened)->bytes() == 0);
  CHECK(*of.closed == 0);
  opened->reset();
  CHECK(*of.closed == 1);
}

TEST_CASE("what is wrong with the regions is found before the device is called",
          "[offload][host_registration]") {
  const auto writable = GENERATE(true, false);
  leased of{!writable};

  const auto refused = of.open(writable ? std::nullopt : std::optional<std::uint64_t>{page});

  REQUIRE_FALSE(refused);
  CHECK(of.gpu->fallible_calls() == 0);
  CHECK(*of.closed == 1);
}

TEST_CASE("a device that registers no pages is not called", "[offload][host_registration]") {
  leased of;
  const auto cpu = std::make_shared<host_device>(host_device_options{});

  const auto refused = host_registration::open(cpu, std::move(of.lease), of.sources, std::nullopt);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK_THAT(refused.error().detail, Contains("device host registers no"));
}

TEST_CASE("a line before and after each call tells its bytes", "[offload][host_registration]") {
  leased of;
  log_at_least(log_level::info);

  const auto written = test::standard_error_of([&] {
    const auto opened = of.open();
    static_cast<void>((*opened)->close());
  });

  log_at_least(log_level::warn);
  const auto two = std::to_string(2 * page);
  const auto one = std::to_string(page);
  auto from = std::size_t{0};
  for (const auto& line : {"register pages bytes=" + two, "registered pages bytes=" + two,
                           "register pages bytes=" + one, "registered pages bytes=" + one,
                           "unregister pages bytes=" + one, "unregistered pages bytes=" + one,
                           "unregister pages bytes=" + two, "unregistered pages bytes=" + two}) {
    INFO(line << " in " << written);
    from = written.find(line + "\n", from);
    REQUIRE(from != std::string::npos);
  }
}

TEST_CASE("a range that fails gives back those before it and leaves the next call alone",
          "[offload][host_registration]") {
  leased of;
  of.gpu->inject({.call = device_call::register_pages, .after = 1, .error = errc::device_failure});

  const auto failed = of.open();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::device_failure);
  CHECK_THAT(failed.error().detail, Contains("register_pages"));
  CHECK(of.registered() == 0);
  CHECK(*of.closed == 1);
  CHECK(abandoned_registrations(*of.gpu) == 0);
  CHECK_NOTHROW(memory_block{*of.gpu, memory_kind::pinned, 64});
}

TEST_CASE("ranges are given back in reverse order", "[offload][host_registration]") {
  leased of;
  log_at_least(log_level::info);
  of.gpu->inject({.call = device_call::pages_registered});

  const auto written = test::standard_error_of([&] { CHECK_FALSE(of.open()); });

  log_at_least(log_level::warn);
  CHECK(written.find("unregister pages bytes=" + std::to_string(page)) <
        written.find("unregister pages bytes=" + std::to_string(2 * page)));
}

TEST_CASE("weights that are not registered after all, or of which it cannot be told, are a failure",
          "[offload][host_registration]") {
  leased of;
  const read_only_pages elsewhere{1};
  SECTION("elsewhere") {
    of.sources.push_back(elsewhere.bytes());
  }
  SECTION("the question fails") {
    of.gpu->inject({.call = device_call::pages_registered, .after = 1});
  }

  const auto failed = of.open();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::device_failure);
  CHECK(of.registered() == 0);
  CHECK(*of.closed == 1);
}

TEST_CASE("what a rollback cannot give back is an error of its own, and keeps the lease until a "
          "retry succeeds",
          "[offload][host_registration]") {
  leased of;
  of.gpu->inject({.call = device_call::register_pages, .after = 1});
  of.gpu->inject({.call = device_call::unregister_pages, .error = errc::device_failure});
  of.gpu->inject({.call = device_call::unregister_pages, .after = 1});

  const auto failed = of.open();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::incomplete);
  CHECK_THAT(failed.error().detail, Contains("register_pages") && Contains("unregister_pages"));
  CHECK(of.registered() == 2 * page);
  CHECK(*of.closed == 0);
  CHECK(abandoned_registrations(*of.gpu) == 1);

  CHECK(retry_registrations(*of.gpu).size() == 1);
  CHECK(*of.closed == 0);

  CHECK(retry_registrations(*of.gpu).empty());
  CHECK(of.registered() == 0);
  CHECK(*of.closed == 1);
  CHECK(abandoned_registrations(*of.gpu) == 0);
}

TEST_CASE("a close keeps the ranges that failed for the next one", "[offload][host_registration]") {
  leased of;
  const auto opened = of.open();
  REQUIRE(opened);
  of.gpu->inject({.call = device_call::unregister_pages, .error = errc::device_failure});

  const auto failed = (*opened)->close();

  REQUIRE(failed.size() == 1);
  CHECK(failed.front().code == errc::device_failure);
  CHECK((*opened)->bytes() == page);
  CHECK((*opened)->covers(of.second.bytes()));
  CHECK_FALSE((*opened)->covers(of.first.bytes()));
  CHECK((*opened)->close().empty());
  CHECK(of.registered() == 0);
}

TEST_CASE("pages and their lease outlive whoever registered them", "[offload][host_registration]") {
  leased of;
  CHECK(of.open());

  CHECK(*of.closed == 0);
  CHECK(of.registered() == 3 * page);
  CHECK(abandoned_registrations(*of.gpu) == 1);
  CHECK(retry_registrations(*of.gpu).empty());
  CHECK(*of.closed == 1);
}

TEST_CASE("a retry touches neither what is in use nor another device",
          "[offload][host_registration]") {
  leased of;
  leased other;
  const auto in_use = of.open();
  REQUIRE(in_use);
  CHECK(other.open());

  CHECK(retry_registrations(*of.gpu).empty());

  CHECK(of.registered() == 3 * page);
  CHECK(other.registered() == 3 * page);
  CHECK(retry_registrations(*other.gpu).empty());
  CHECK(other.registered() == 0);
  CHECK((*in_use)->close().empty());
}

} // namespace
} // namespace ferry
