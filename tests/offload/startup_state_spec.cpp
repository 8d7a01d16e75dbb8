// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/startup_state.hpp>

#include "support/catch.hpp"
#include "support/leased_plan.hpp"
#include "support/resolution.hpp"

namespace ferry {
namespace {

using test::leased_plan;

loaded_pipeline loaded() {
  return loaded_pipeline{std::make_shared<test::fake_pipeline>(test::tree())};
}

fresh_loader loader() {
  return [] { return result<loaded_pipeline>{loaded()}; };
}

TEST_CASE("a second try is allowed exactly if there is a fresh loader",
          "[offload][startup_state]") {
  CHECK_FALSE(offload_startup_state{}.allow_fresh_retry());
  CHECK(offload_startup_state{std::nullopt, loader(), true}.allow_fresh_retry());
  CHECK_THROWS_WITH((offload_startup_state{std::nullopt, {}, true}),
                    Catch::Contains("allow_fresh_retry is true without a fresh model loader"));
  CHECK_THROWS_WITH((offload_startup_state{std::nullopt, loader(), false}),
                    Catch::Contains("allow_fresh_retry is false with a fresh model loader"));
}

TEST_CASE("loader ownership is closed once", "[offload][startup_state]") {
  leased_plan leased;
  offload_startup_state state{leased.plan(), {}, false};

  CHECK(state.close_loader_ownership());
  CHECK(state.close_loader_ownership());

  CHECK(leased.closed() == 1);
}

TEST_CASE("what the backend has taken is not closed by the loader", "[offload][startup_state]") {
  leased_plan leased;
  const auto plan = leased.plan();
  offload_startup_state state{plan, {}, false};
  const auto lease = plan.carrier->take();

  CHECK(state.close_loader_ownership());

  CHECK(leased.closed() == 0);
}

TEST_CASE("a state that is dropped closes what its loader owns", "[offload][startup_state]") {
  leased_plan leased;

  {
    const offload_startup_state state{leased.plan(), {}, false};
  }

  CHECK(leased.closed() == 1);
}

TEST_CASE("a state is taken off a pipeline exactly once", "[offload][startup_state]") {
  leased_plan leased;
  auto subject = loaded();
  CHECK_FALSE(subject.take_state());
  subject.attach({leased.plan(), {}, false});

  const auto taken = subject.take_state();

  REQUIRE(taken);
  CHECK(taken->plan().has_value());
  CHECK(leased.closed() == 0);
  CHECK_FALSE(subject.take_state());
}

TEST_CASE("attaching a second state closes and replaces the first", "[offload][startup_state]") {
  leased_plan first;
  leased_plan second;
  auto subject = loaded();
  subject.attach({first.plan(), {}, false});

  subject.attach({second.plan(), loader(), true});

  CHECK(first.closed() == 1);
  CHECK(second.closed() == 0);
  CHECK(subject.take_state()->allow_fresh_retry());
}

} // namespace
} // namespace ferry
