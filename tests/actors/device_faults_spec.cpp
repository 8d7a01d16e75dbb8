// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/life_plans.hpp"

#include <memory>
#include <string>

namespace ferry {
namespace {

using test::life_plan;
using test::supervised_life;

bool may_cause(const sim_fault& fault, const failure& cause) {
  return cause.code == fault.error || cause.code == errc::device_poisoned ||
         cause.code == errc::incomplete;
}

/// Makes every call of a kind fail in turn. Returns how many did.
std::uint64_t at_every_call(const life_plan& what, sim_fault fault) {
  for (;; ++fault.after) {
    const auto gpu = std::make_shared<sim_device>(sim_options{});
    supervised_life life{what.pipeline(), gpu, what};
    gpu->inject(fault);
    const auto succeeded = life.live();
    if (!gpu->cancel_failure()) {
      REQUIRE(succeeded);
      return fault.after;
    }
    if (fault.effect != fault_effect::once)
      life.end_device();
    INFO("device call " << fault.after << " fails, effect " << static_cast<int>(fault.effect));
    if (const auto& cause = life.first_failure()) {
      INFO(describe(*cause));
      CHECK(may_cause(fault, *cause));
    }
    CHECK(test::joined(test::harm_done(life)) == "");
  }
}

TEST_CASE("whatever device call fails in a life, once or for good, nothing is left behind",
          "[actors][faults][device]") {
  std::uint64_t points = 0;
  for (const auto& plan : test::all_life_plans())
    for (const auto effect : {fault_effect::once, fault_effect::sticky, fault_effect::deferred})
      points += at_every_call(plan, {.effect = effect});

  WARN(points << " device calls were made to fail, one in each life");
  CHECK(points > 2000);
}

TEST_CASE("whatever allocation finds no memory, a life goes on without it or leaves nothing",
          "[actors][faults][device]") {
  std::uint64_t points = 0;
  for (auto plan : test::all_life_plans())
    for (const auto error : {errc::out_of_host_memory, errc::out_of_device_memory})
      points += at_every_call(plan, {.call = device_call::allocate, .error = error});

  WARN(points << " allocations found no memory, one in each life");
  CHECK(points > 80);
}

} // namespace
} // namespace ferry
