// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/life_plans.hpp"

#include <memory>
#include <optional>
#include <string>

namespace ferry {
namespace {

using test::life_plan;
using test::message_fault;
using test::supervised_life;

/// Returns whether a life may have failed with `cause` first when this happened to a message.
bool may_cause(message_fault kind, const failure& cause) {
  switch (kind) {
    case message_fault::lost:
    case message_fault::late:
      return cause.code == errc::deadline_exceeded || cause.code == errc::incomplete;
    case message_fault::slow:
      return false;
    case message_fault::killed:
      return cause.code == errc::transfer_aborted || cause.code == errc::internal;
    case message_fault::refused:
      return cause.code == errc::incomplete ||
             cause.detail.find("refused on its way") != std::string::npos;
  }
  return false;
}

/// Makes every message of a life fail in turn. Returns how many did.
std::uint64_t at_every_message(const life_plan& what, message_fault kind) {
  for (std::uint64_t n = 0;; ++n) {
    supervised_life life{what.pipeline(), std::make_shared<sim_device>(sim_options{}), what};
    life.faults().fail_after(n, kind);
    const auto succeeded = life.live();
    if (!life.faults().struck()) {
      REQUIRE(succeeded);
      CHECK(life.leftovers().empty());
      return n;
    }
    INFO("message " << n << " (" << life.faults().what() << ") is " << describe(kind));
    if (const auto& cause = life.first_failure()) {
      INFO(describe(*cause));
      CHECK(may_cause(kind, *cause));
    }
    CHECK(test::joined(test::harm_done(life)) == "");
  }
}

/// Returns how many messages failed in all kinds of lives.
std::uint64_t in_every_life(message_fault kind) {
  std::uint64_t points = 0;
  for (const auto& plan : test::all_life_plans())
    points += at_every_message(plan, kind);
  WARN(points << " messages were " << describe(kind) << ", one in each life");
  return points;
}

TEST_CASE("whatever message is lost in a life, nothing is left behind",
          "[actors][faults][messages]") {
  CHECK(in_every_life(message_fault::lost) > 800);
}

TEST_CASE("whatever message is slow in a life, the life goes on as usual",
          "[actors][faults][messages]") {
  CHECK(in_every_life(message_fault::slow) > 800);
}

TEST_CASE("whatever message comes too late in a life, nothing is left behind",
          "[actors][faults][messages]") {
  CHECK(in_every_life(message_fault::late) > 800);
}

TEST_CASE("whatever message is refused in a life, nothing is left behind",
          "[actors][faults][messages]") {
  CHECK(in_every_life(message_fault::refused) > 550);
}

TEST_CASE("whatever message a child ends at in a life, nothing is left behind",
          "[actors][faults][messages]") {
  CHECK(in_every_life(message_fault::killed) > 650);
}

TEST_CASE("a message that is lost while a failed copy is reported leaves nothing behind",
          "[actors][faults][messages]") {
  for (const auto& plan : test::all_life_plans()) {
    // Nothing of ours is copied, or the copy that fails is one of a group, which fails no runtime.
    if (plan.updated.empty() || plan.lease)
      continue;
    auto struck = true;
    for (std::uint64_t n = 0; struck; ++n) {
      const auto gpu = std::make_shared<sim_device>(sim_options{});
      supervised_life life{plan.pipeline(), gpu, plan};
      gpu->inject({.call = device_call::copy, .after = 5});
      life.faults().fail_after(n, message_fault::lost);

      CHECK_FALSE(life.live());

      struck = life.faults().struck();
      static_cast<void>(gpu->cancel_failure());
      INFO("message " << n << " (" << life.faults().what() << ") is lost");
      CHECK(test::joined(test::harm_done(life)) == "");
    }
  }
}

} // namespace
} // namespace ferry
