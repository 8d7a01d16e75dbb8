// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ferry {
namespace {

constexpr std::size_t blocks = 8;
constexpr std::size_t steps = 6;

/// A link on which blocks of a few hundred bytes take nine tenths of their compute, give or take.
sim_options link_with(double jitter) {
  sim_options options;
  options.latency = std::chrono::microseconds{900};
  options.compute = std::chrono::milliseconds{1};
  options.jitter = jitter;
  return options;
}

/// A runtime that may have up to four slots.
struct growing_rig {
  explicit growing_rig(double jitter, std::optional<std::uint64_t> device_memory = std::nullopt)
      : gpu(std::make_shared<sim_device>(link_with(jitter))),
        subject(gpu, {.slots = 2, .most_slots = 4, .device_memory = device_memory}) {}

  void enable() {
    REQUIRE(subject.start());
    gate = subject.enable(stack.weights()).value();
  }

  /// Runs a request. Returns how many slots it had.
  std::size_t request() {
    REQUIRE(subject.begin_request());
    CHECK(stack.run_all(*gate, steps));
    const auto state = subject.state().value();
    CHECK(state.tickets_in_flight == state.slots);
    CHECK(state.slots_free == 0);
    REQUIRE(subject.end_request());
    return state.slots;
  }

  [[nodiscard]] std::size_t slot_bytes() const { return stack.weights()->plan.slot_bytes; }

  std::shared_ptr<sim_device> gpu;
  test::byte_blocks stack{{blocks}, 0};
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

TEST_CASE("where transfers vary the next request has more slots, and keeps them",
          "[actors][slots]") {
  growing_rig rig(0.5);
  rig.enable();

  CHECK(rig.request() == 2);
  const auto grown = rig.request();
  CHECK(grown > 2);
  rig.request();
  const auto last = rig.request();
  CHECK(last >= grown);
  CHECK(last <= 4);
  CHECK(rig.gpu->counters().device_bytes == last * rig.slot_bytes());
  CHECK(rig.subject.state()->peak_device_weight_bytes == last * rig.slot_bytes());
  CHECK(rig.gpu->race_count() == 0);
  REQUIRE(rig.subject.disable());
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("a configuration says how many slots there are, or that they come by need",
          "[actors][slots]") {
  const auto slots_with = [](std::string_view slots) {
    const auto gpu = std::make_shared<sim_device>(link_with(0.5));
    const auto model = std::make_shared<test::fake_pipeline>(
        test::node("root")->child("transformer", test::dit(blocks)));
    model->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
    runtime subject(gpu, {});
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, test::compact(R"({"mode":"layer","components":["dit"],"slots":)" +
                                                std::string(slots) + "}")));
    for (int request = 0; request != 3; ++request) {
      REQUIRE(subject.begin_request());
      for (std::size_t use = 0; use != steps * blocks; ++use)
        model->call("transformer.blocks." + std::to_string(use % blocks), [](auto&) {});
      REQUIRE(subject.end_request());
    }
    return subject.state()->slots;
  };

  CHECK(slots_with("1") == 1);
  CHECK(slots_with("3") == 3);
  CHECK(slots_with(R"("auto")") > 2);
}

TEST_CASE("where transfers are steady there are no more slots", "[actors][slots]") {
  growing_rig rig(0);
  rig.enable();

  CHECK(rig.request() == 2);
  CHECK(rig.request() == 2);
  CHECK(rig.request() == 2);
}

TEST_CASE("a runtime that was not told otherwise keeps its slots", "[actors][slots]") {
  growing_rig rig(0.5);
  runtime fixed(rig.gpu, {.slots = 2});
  REQUIRE(fixed.start());
  rig.gate = fixed.enable(rig.stack.weights()).value();

  for (int i = 0; i != 3; ++i) {
    REQUIRE(fixed.begin_request());
    CHECK(rig.stack.run_all(*rig.gate, steps));
    REQUIRE(fixed.end_request());
  }

  CHECK(fixed.state()->slots == 2);
}

TEST_CASE("slots beyond the memory for weights are not taken", "[actors][slots]") {
  const auto one = growing_rig(0).slot_bytes();
  growing_rig rig(0.5, 3 * one - 1);
  rig.enable();

  for (int i = 0; i != 4; ++i)
    CHECK(rig.request() == 2);
}

TEST_CASE("a slot that the device does not give leaves the request the slots that there are",
          "[actors][slots]") {
  growing_rig rig(0.5);
  rig.enable();
  CHECK(rig.request() == 2);
  rig.gpu->inject({.call = device_call::allocate});

  CHECK(rig.request() == 2);
  CHECK(rig.request() == 2);
}

TEST_CASE("what blocks took is not known before the device has run them",
          "[actors][slots][edges]") {
  growing_rig rig(0.5);
  rig.gpu->forget(slots_wait_compute.name);
  rig.enable();

  for (int i = 0; i != 4; ++i)
    CHECK(rig.request() == 2);
}

TEST_CASE("a runtime refuses to grow without end, to shrink, and to grow among ranks",
          "[actors][slots]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  auto ends = make_sim_communicators(std::array{gpu.get()}, std::chrono::seconds{1});
  const rank_group alone{.meeting = nullptr, .gathers = std::move(ends.front())};

  CHECK_THROWS_AS(runtime(gpu, {.slots = 2, .most_slots = 5}), ferry_error);
  CHECK_THROWS_AS(runtime(gpu, {.slots = 3, .most_slots = 2}), ferry_error);
  CHECK_THROWS_WITH(runtime(gpu, {.most_slots = 3, .ranks = alone}),
                    Catch::Contains("most_slots is 3") && Catch::Contains("leave it out"));
  CHECK_NOTHROW(runtime(gpu, {.slots = 6, .most_slots = 6}));
}

} // namespace
} // namespace ferry
