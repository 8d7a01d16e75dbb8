// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/planner.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::fake_pipeline;

constexpr std::size_t blocks = 8;
constexpr std::size_t block_bytes = 1 << 20;

/// A denoiser of eight blocks of 1 MiB, an encoder, and a decoder.
std::shared_ptr<fake_pipeline> make_pipeline() {
  auto made = std::make_shared<fake_pipeline>(test::tree(blocks, 3, block_bytes / sizeof(float)));
  auto plan = test::planned();
  plan.resident_dit_paths = {"transformer"};
  made->declare(test::roles).plan(plan);
  return made;
}

/// Blocks come in 2 ms and compute for 1.
plan_question link_bound() {
  return {.rates = {.link = block_bytes / 2e-3, .compute = 1ms}};
}

std::vector<planned_configuration> planned(const plan_question& asked) {
  return plan_configurations(*make_pipeline(), asked).value();
}

failure refused(const plan_question& asked) {
  return plan_configurations(*make_pipeline(), asked).error();
}

TEST_CASE("where everything fits nothing is offloaded", "[offload][planner]") {
  const auto plans = planned(link_bound());

  CHECK(plans.front().compact.empty());
  CHECK(plans.front().config.strategy == offload_strategy::none);
  CHECK(plans.front().step == 8ms);
  CHECK(plans.front().host_bytes == 0);
  CHECK(plans.front().device_bytes >= blocks * block_bytes);
}

TEST_CASE("a device that reads all memory as it is has nothing pinned", "[offload][planner]") {
  auto asked = link_bound();
  asked.pins = false;
  asked.host_memory = 0;
  const auto plans = planned(asked);

  CHECK(std::ranges::any_of(plans, [](const auto& each) { return each.slots != 0; }));
  CHECK(std::ranges::all_of(plans, [](const auto& each) { return each.host_bytes == 0; }));
}

TEST_CASE("what would hide all copies is no better than offloading nothing", "[offload][planner]") {
  auto asked = link_bound();
  asked.rates.compute = 5ms;

  CHECK(planned(asked).front().compact.empty());
}

TEST_CASE("what does not fit is left out, and the rest is ranked by the time of a request",
          "[offload][planner]") {
  auto asked = link_bound();
  asked.device_memory = 6 * block_bytes;
  const auto plans = planned(asked);

  REQUIRE(plans.size() > 6);
  for (const auto& each : plans)
    CHECK(each.device_bytes <= 6 * block_bytes);
  const auto& best = plans.front();
  CHECK(best.config.strategy == offload_strategy::distributed_layer_wise);
  CHECK(best.resident_blocks >= 3);
  CHECK(best.step < 12ms);
  const auto time = [&](const planned_configuration& each) { return each.step * 4 + each.load; };
  for (const auto& each : plans)
    CHECK(time(best) <= 1.001 * time(each));
}

TEST_CASE("without residents a link-bound step takes the link's time", "[offload][planner]") {
  auto asked = link_bound();
  asked.device_memory = 6 * block_bytes;
  const auto plans = planned(asked);

  const auto plain = std::ranges::find_if(plans, [](const planned_configuration& each) {
    return each.slots == 2 && each.resident_blocks == 0 &&
           !each.config.components->contains(component_name::text_encoder);
  });
  REQUIRE(plain != plans.end());
  CHECK(plain->step == 8 * 2ms);
  CHECK(plain->load == 0ms);
  CHECK(plain->host_bytes == blocks * block_bytes);
}

TEST_CASE(
    "weights that are converted take the link's time as they are kept, and the device's room as "
    "they are computed with",
    "[offload][planner]") {
  constexpr auto elements = static_cast<std::int64_t>(block_bytes / sizeof(float));
  std::vector<test::fake_node> made;
  for (std::size_t i = 0; i != blocks; ++i)
    made.push_back(
        test::node("test.block")->parameter("weight", test::bf16_kept_tensor({elements}, 1)));
  fake_pipeline model(
      test::node("test.root")
          ->child("transformer",
                  test::node("test.dit")->child("blocks", test::list(std::move(made)))));
  model.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  auto asked = link_bound();
  asked.rates.compute = 10us;
  asked.device_memory = 3 * block_bytes;

  const auto plans = plan_configurations(model, asked).value();

  const auto plain = std::ranges::find_if(plans, [](const planned_configuration& each) {
    return each.slots == 2 && each.resident_blocks == 0;
  });
  REQUIRE(plain != plans.end());
  CHECK(plain->step == 8 * 1ms);
  CHECK(plain->device_bytes == 2 * block_bytes);
  CHECK(plain->host_bytes == blocks * block_bytes / 2);

  asked.ranks = 2;
  const auto of_two = plan_configurations(model, asked).value();
  CHECK(std::ranges::none_of(
      of_two, [](const auto& each) { return each.config.uses_allgather(component_name::dit); }));
  asked.converts = false;
  const auto refused = plan_configurations(model, asked);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
}

TEST_CASE("where compute is the limit nothing stays, and two slots are enough",
          "[offload][planner]") {
  auto asked = link_bound();
  asked.rates.compute = 5ms;
  asked.device_memory = 6 * block_bytes;
  const auto best = planned(asked).front();

  CHECK(best.slots == 2);
  CHECK(best.resident_blocks == 0);
  CHECK(best.step == 40ms);
}

TEST_CASE("a link whose copies vary is worth more slots", "[offload][planner]") {
  auto asked = link_bound();
  asked.rates.compute = 2200us;
  asked.rates.jitter = 0.5;
  asked.device_memory = 7 * block_bytes;
  const auto slots_among = [&](std::size_t residents) {
    std::vector<planned_configuration> same;
    for (auto& each : planned(asked))
      if (each.resident_blocks == residents)
        same.push_back(std::move(each));
    return same.front().slots;
  };

  CHECK(slots_among(0) == 4);
  asked.rates.jitter = 0;
  CHECK(slots_among(0) == 2);
}

TEST_CASE("passes count, and compute times are those of the longest path", "[offload][planner]") {
  auto asked = link_bound();
  asked.passes = {{"transformer", 2}};
  asked.rates.computes = {{"transformer", 3ms}, {"transformer.blocks.5", 10ms}};
  const auto best = planned(asked).front();

  CHECK(best.step == 2 * (7 * 3ms + 10ms));
  CHECK(best.steps.at("transformer") == best.step);
}

TEST_CASE("passes of a step that share fetches take the time of one where the link is the limit",
          "[offload][planner]") {
  auto asked = link_bound();
  asked.passes = {{"transformer", 2}};
  asked.device_memory = 4 * block_bytes;
  const auto plans = planned(asked);
  const auto& best = plans.front();
  const auto apart = std::ranges::find_if(plans, [&](const planned_configuration& each) {
    return each.passes_per_fetch == 1 && each.compact == best.compact;
  });

  CHECK(best.passes_per_fetch == 2);
  CHECK(best.step == 16ms);
  REQUIRE(apart != plans.end());
  CHECK(apart->step == 32ms);
}

TEST_CASE("as many passes share a fetch as may, where that helps", "[offload][planner]") {
  auto asked = link_bound();
  asked.passes = {{"transformer", 2}};
  asked.rates.compute = 500us;
  asked.device_memory = 4 * block_bytes;

  asked.most_passes_per_fetch = 8;
  CHECK(planned(asked).front().passes_per_fetch == 4);
  CHECK(planned(asked).front().step == 8ms); // Of one of two requests.
  asked.most_passes_per_fetch = 1;
  CHECK(planned(asked).front().passes_per_fetch == 1);
}

TEST_CASE("no time or rate that may be given takes a plan out of range", "[offload][planner]") {
  plan_question slow;
  slow.rates.link = 1e-4;
  slow.rates.gather = 1e-4;
  slow.rates.compute = 1h;
  slow.rates.latency = 1h;
  slow.rates.jitter = GENERATE(0, 10);
  slow.ranks = GENERATE(1U, 2U);
  slow.steps = 1000;
  slow.most_passes_per_fetch = 64;

  const auto plans = planned(slow);

  CHECK(plans.front().compact.empty());
  for (const auto& each : plans)
    CHECK(each.step >= blocks * 1h);
}

TEST_CASE("a denoiser of one block is planned for, and not streamed", "[offload][planner]") {
  fake_pipeline subject{test::tree(1, 3, block_bytes / sizeof(float))};
  auto plan = test::planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(test::roles).plan(plan);

  const auto plans = plan_configurations(subject, link_bound()).value();

  REQUIRE(plans.size() == 2);
  CHECK(plans[0].config.strategy == offload_strategy::none);
  CHECK(plans[0].step == 1ms);
  CHECK(plans[1].config.strategy == offload_strategy::model_level);
  CHECK(plans[1].slots == 0);
}

TEST_CASE("a compute time of no block is refused", "[offload][planner]") {
  auto asked = link_bound();
  asked.rates.computes = {{"transformer_2", 3ms}};

  CHECK(refused(asked).code == errc::not_found);
  CHECK_THAT(refused(asked).detail,
             Contains("'transformer_2' is that of no block") && Contains("transformer.blocks.0"));
}

TEST_CASE("ranks that are held up by the link gather", "[offload][planner]") {
  auto asked = link_bound();
  asked.ranks = 4;
  asked.device_memory = 4 * block_bytes;
  asked.rates.gather = 360e9;
  const auto best = planned(asked).front();

  CHECK(best.config.uses_allgather(component_name::dit));
  CHECK(best.host_bytes < 2 * blocks * block_bytes);
  CHECK(best.step < 9ms);
  asked.rates.gather = 1e8;
  CHECK_FALSE(planned(asked).front().config.uses_allgather(component_name::dit));
}

TEST_CASE("ranks whose gathers go over the link copy alone, unless the host's memory is the limit",
          "[offload][planner]") {
  auto asked = link_bound();
  asked.ranks = 4;
  asked.device_memory = 4 * block_bytes;
  asked.rates.gather = asked.rates.link;
  asked.rates.gather_over_link = true;
  const auto best = [&] { return planned(asked).front(); };

  CHECK_FALSE(best().config.uses_allgather(component_name::dit));
  asked.rates.host = asked.rates.link;
  CHECK(best().config.uses_allgather(component_name::dit));
}

TEST_CASE("ranks that copy alone share what the host's memory gives", "[offload][planner]") {
  auto asked = link_bound();
  asked.ranks = 4;
  asked.device_memory = 4 * block_bytes;
  asked.rates.gather = 1e8;
  asked.rates.host = asked.rates.link;

  const auto plans = planned(asked);
  const auto alone = std::ranges::find_if(plans, [](const planned_configuration& each) {
    return each.slots == 2 && each.resident_blocks == 0 &&
           !each.config.uses_allgather(component_name::dit);
  });
  REQUIRE(alone != plans.end());
  CHECK(alone->step == 4 * 8 * 2ms);
}

TEST_CASE("where nothing fits the least that would is told", "[offload][planner]") {
  auto asked = link_bound();
  asked.device_memory = block_bytes / 2;
  const auto none = refused(asked);
  CHECK(none.code == errc::out_of_device_memory);

  asked.device_memory = block_bytes + block_bytes / 2;
  const auto least =
      std::ranges::min(planned(asked), {}, &planned_configuration::device_bytes).device_bytes;
  CHECK_THAT(none.detail, Contains("device memory of " + std::to_string(block_bytes / 2)) &&
                              Contains("needs at least " + std::to_string(least)));
}

TEST_CASE("host memory is a limit of its own", "[offload][planner]") {
  auto asked = link_bound();
  asked.host_memory = block_bytes;
  CHECK(planned(asked).size() == 1);
  CHECK(planned(asked).front().compact.empty());

  asked.device_memory = 4 * block_bytes;
  CHECK(refused(asked).code == errc::out_of_device_memory);
}

TEST_CASE("a pipeline without blocks to stream is refused", "[offload][planner]") {
  fake_pipeline subject{test::tree(0)};
  subject.declare(test::roles).plan(test::planned());

  CHECK(plan_configurations(subject, {}).error().code == errc::invalid_pipeline);
}

} // namespace
} // namespace ferry
