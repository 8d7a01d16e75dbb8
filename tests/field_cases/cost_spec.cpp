// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "served_model.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using test::served_model;
using test::whole_components;
using nanoseconds = std::chrono::nanoseconds;

constexpr std::int64_t wide = 1 << 14; ///< Elements of a block that copies in 66 us.

std::shared_ptr<sim_device> make_gpu(std::chrono::microseconds compute = std::chrono::microseconds{
                                         1}) {
  sim_options options;
  options.h2d_bandwidth = 1e9;
  options.compute = compute;
  return std::make_shared<sim_device>(options);
}

TEST_CASE("swapping whole components copies nothing back, and each request copies the same",
          "[field_cases][B74]") {
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(whole_components)));
  REQUIRE(run.request());
  const auto first = gpu->counters().h2d_bytes;
  REQUIRE(run.request());
  const auto second = gpu->counters().h2d_bytes;
  REQUIRE(run.request());

  CHECK(gpu->counters().d2h_bytes == 0);
  CHECK(gpu->counters().h2d_bytes - second == second - first);
  CHECK(second - first <= first);
  CHECK(run.state().pageable_stores == 0);
}

TEST_CASE("an enable puts no more on the device than the backend holds afterwards",
          "[field_cases][B77]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, test::dit_only);
  const auto gpu = make_gpu();
  served_model run{gpu};

  REQUIRE(run.enable(test::compact(mode)));

  const auto state = run.state();
  CHECK(gpu->counters().peak_device_bytes == state.resident_bytes + state.slots * state.slot_bytes);
  CHECK(gpu->counters().peak_device_bytes < state.components.at("transformer").bytes);
}

TEST_CASE("five equal requests need the memory of the first and allocate nothing",
          "[field_cases][B79]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(mode)));
  REQUIRE(run.request());
  const auto first = gpu->counters();

  for (int i = 1; i != 5; ++i) {
    REQUIRE(run.request());
    const auto now = gpu->counters();
    CHECK(now.peak_device_bytes == first.peak_device_bytes);
    CHECK(now.peak_pinned_bytes == first.peak_pinned_bytes);
    CHECK(now.device_bytes == first.device_bytes);
    CHECK(now.allocations == first.allocations);
  }
}

/// Returns how long a step takes once everything is learned, when copies take far longer than
/// compute.
nanoseconds copy_bound_step(int resident, std::size_t slots) {
  const auto gpu = make_gpu();
  served_model run{gpu, slots, wide};
  REQUIRE(run.enable(resident == 0 ? test::compact(test::dit_only) : test::resident(resident)));
  REQUIRE(run.subject().begin_request());
  for (int i = 0; i != 3; ++i)
    REQUIRE(run.run("transformer"));
  const auto before = test::computed_by(*gpu);
  for (int i = 0; i != 4; ++i)
    REQUIRE(run.run("transformer"));
  const auto took = (test::computed_by(*gpu) - before) / 4;
  REQUIRE(run.subject().end_request());
  CHECK(gpu->race_count() == 0);
  return took;
}

TEST_CASE("when copies are the bound, resident layers shorten a step in proportion",
          "[field_cases][B82]") {
  const auto all = copy_bound_step(0, 2);

  for (const auto resident : {2, 4, 6}) {
    const auto expected = all * (8 - resident) / 8;
    INFO(resident << " resident, " << all.count() << " ns without");
    CHECK(copy_bound_step(resident, 2) < expected * 11 / 10);
    CHECK(copy_bound_step(resident, 2) > expected * 9 / 10);
  }
}

TEST_CASE("when copies are the bound, more than two slots shorten nothing", "[field_cases][B82]") {
  const auto two = copy_bound_step(0, 2);

  for (const auto slots : {std::size_t{3}, std::size_t{4}, std::size_t{6}}) {
    INFO(slots << " slots");
    CHECK(copy_bound_step(0, slots) > two * 95 / 100);
    CHECK(copy_bound_step(0, slots) < two * 105 / 100);
  }
}

TEST_CASE("the first step and the one that switches denoisers take no longer than others",
          "[field_cases][B83]") {
  const auto gpu = make_gpu(std::chrono::microseconds{100});
  served_model run{gpu, 2, wide};
  REQUIRE(run.enable(test::compact(test::both)));
  REQUIRE(run.request());
  REQUIRE(run.subject().begin_request());
  REQUIRE(run.run("text_encoder"));
  std::vector<nanoseconds> steps;
  auto last = test::computed_by(*gpu);
  for (const auto* denoiser : {"transformer", "transformer", "transformer", "transformer_2",
                               "transformer_2", "transformer_2"}) {
    REQUIRE(run.run(denoiser));
    steps.push_back(test::computed_by(*gpu) - std::exchange(last, test::computed_by(*gpu)));
  }

  std::ranges::sort(steps);
  CHECK(steps.back() * 2 <= steps[steps.size() / 2] * 3);
  CHECK(run.subject().end_request());
}

TEST_CASE("a decoder that runs in tiles is copied once, not once a tile", "[field_cases][B84]") {
  const std::string mode = GENERATE(as<std::string>{}, test::both, whole_components);
  const auto gpu = make_gpu();
  served_model run{gpu};
  REQUIRE(run.enable(test::compact(mode)));
  const auto moved_with = [&](int tiles) { // All copies are enqueued when a request has ended.
    const auto before = gpu->counters().h2d_bytes;
    REQUIRE(run.subject().begin_request());
    REQUIRE(run.run("transformer"));
    for (int tile = 0; tile != tiles; ++tile)
      CHECK(run.run("vae"));
    REQUIRE(run.subject().end_request());
    return gpu->counters().h2d_bytes - before;
  };
  static_cast<void>(moved_with(1)); // Learns the order.
  const auto once = moved_with(1);

  CHECK(moved_with(8) == once);
}

} // namespace
} // namespace ferry
