// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/component_states.hpp>
#include <ferry/offload/resolve.hpp>

#include "support/catch.hpp"
#include "support/resolution.hpp"

namespace ferry {
namespace {

using namespace ferry::test;

std::map<std::string, component_state> states_of(const fake_pipeline& subject,
                                                 const offload_config& config) {
  const auto resolved = resolve(subject, config).value();
  return component_states(resolved, plan_transfers(resolved));
}

TEST_CASE("a component's bytes are those of its blocks and of the rest", "[offload][states]") {
  fake_pipeline subject{tree()};
  subject.declare(roles).plan(planned());

  const auto states = states_of(subject, compact(both));

  CHECK(states.at("transformer").bytes == 4 * 64 + 16);
  CHECK(states.at("text_encoder").bytes == 3 * 64 + 64);
  CHECK(states.at("vae").bytes == 16);
}

TEST_CASE("a component that is not selected streams nothing", "[offload][states]") {
  fake_pipeline subject{tree()};
  subject.declare(roles).plan(planned());

  const auto states = states_of(subject, compact(dit_only));

  CHECK(states.at("transformer").streamed_bytes > 0);
  CHECK_FALSE(states.at("text_encoder").selected);
  CHECK(states.at("text_encoder").streamed_bytes == 0);
  CHECK(states.at("text_encoder").bytes == 3 * 64 + 64);
}

TEST_CASE("a component that stages itself has its whole size", "[offload][states]") {
  auto root = tree();
  root->at("text_encoder")->stages();
  fake_pipeline subject{root};
  auto plan = planned();
  plan.on_demand_component_paths = {"text_encoder"};
  subject.declare(roles).plan(plan);

  const auto states = states_of(subject, compact(both));

  CHECK(states.at("text_encoder").on_demand);
  CHECK(states.at("text_encoder").bytes == 3 * 64 + 64);
}

TEST_CASE("a component that comes and goes as a whole has its whole size", "[offload][states]") {
  fake_pipeline subject{tree()};
  subject.declare(roles).plan(planned());

  const auto states =
      states_of(subject, compact(R"({"mode":"module","components":["dit","text_encoder"]})"));

  CHECK(states.at("transformer").bytes == 4 * 64 + 16);
  CHECK(states.at("text_encoder").bytes == 3 * 64 + 64);
}

TEST_CASE("the blocks of a resident head count and are not streamed", "[offload][states]") {
  fake_pipeline subject{tree()};
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  const auto states = states_of(subject, resident(2));

  CHECK(states.at("transformer").bytes == 4 * 64 + 16);
  CHECK(states.at("transformer").resident_blocks == 2);
  CHECK(states.at("transformer").streamed_bytes == 2 * 256);
}

} // namespace
} // namespace ferry
