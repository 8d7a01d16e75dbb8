// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P9: device memory is the residents and the slots and nothing else, a steady step allocates
// nothing, and pinned memory is as large as the weights, also of all ranks together. The baseline
// for pinning is the rule of torch's pinned allocator, which rounds each block to a power of two.

#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "goal.hpp"
#include "sim_ranks.hpp"
#include "support/fake_pipeline.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace ferry::bench {

namespace {

// Real sizes are divided by this, which leaves their ratio to a power of two as it is.
constexpr std::size_t scale = 1024;

struct shape {
  const char* name;
  std::vector<std::size_t> blocks;
};

std::vector<std::size_t> repeated(std::size_t count, std::size_t bytes, std::size_t more = 0,
                                  std::size_t other = 0) {
  std::vector<std::size_t> sizes(count, bytes);
  sizes.insert(sizes.end(), more, other);
  return sizes;
}

struct memory_use {
  double device_excess = 0; ///< Beyond residents, slots and inputs.
  double pinned = 0;
  std::uint64_t steady_allocations = 0;
};

std::size_t largest_of(const shape& of) {
  return *std::ranges::max_element(of.blocks);
}

memory_use alone(const shape& of, std::size_t slots) {
  const auto sim = std::make_shared<sim_device>(sim_options{});
  bare_stack stack(sim, std::array{of.blocks}, host_weights::masters, {.slots = slots});
  checked(stack.through().begin_request());
  stack.run_all();
  const auto warm = sim->counters().allocations;
  stack.run_all();
  stack.run_all();
  const auto steady = sim->counters().allocations - warm;
  checked(stack.through().end_request());
  const auto counters = sim->counters();
  return {.device_excess = static_cast<double>(counters.peak_device_bytes) -
                           static_cast<double>(slots * largest_of(of)),
          .pinned = static_cast<double>(counters.peak_pinned_bytes),
          .steady_allocations = steady};
}

std::shared_ptr<test::fake_pipeline> make_model(const shape& of) {
  std::vector<test::fake_node> list;
  for (const auto bytes : of.blocks)
    list.push_back(test::block(static_cast<std::int64_t>(bytes / 4)));
  auto made = std::make_shared<test::fake_pipeline>(test::node("root")->child(
      "transformer", test::node("dit")->child("blocks", test::list(std::move(list)))));
  made->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  return made;
}

/// One rank's share of the memory, which is all that its device has.
memory_use one_rank(const shape& of, std::size_t ranks, sim_rank own) {
  auto config = checked(resolve_config(R"({"mode":"layer","components":["dit"],
      "layer_options":{"dit":{"weight_transfer":"allgather"}}})",
                                       {}))
                    .config;
  config.chunk_bytes /= scale;
  const auto gpu = own.gpu;
  const auto model = make_model(of);
  runtime through(gpu, {.ranks = std::move(own.group)});
  checked(through.start());
  checked(through.enable(model, config));
  const auto run_all = [&] {
    for (std::size_t i = 0; i < of.blocks.size(); ++i)
      model->call("transformer.blocks." + std::to_string(i), [](test::fake_module&) {});
  };
  checked(through.begin_request({.steps = 3}));
  run_all();
  const auto warm = gpu->counters().allocations;
  run_all();
  run_all();
  const auto steady = gpu->counters().allocations - warm;
  checked(through.end_request());
  const auto inputs = 2 * std::min(largest_of(of), config.chunk_bytes) / ranks;
  const auto counters = gpu->counters();
  return {.device_excess = static_cast<double>(counters.peak_device_bytes) -
                           static_cast<double>(2 * largest_of(of) + inputs),
          .pinned = static_cast<double>(counters.peak_pinned_bytes),
          .steady_allocations = steady};
}

/// Returns the largest excess, and what all ranks pin and allocate together.
memory_use together(const shape& of, std::size_t ranks) {
  std::vector<memory_use> each(ranks);
  on_every_rank(make_sim_ranks(ranks, {}), [&](std::size_t number, sim_rank own) {
    each[number] = one_rank(of, ranks, std::move(own));
  });
  memory_use all;
  for (const auto& one : each) {
    all.device_excess = std::max(all.device_excess, one.device_excess);
    all.pinned += one.pinned;
    all.steady_allocations += one.steady_allocations;
  }
  return all;
}

} // namespace

outcome measure_memory() {
  const std::array shapes = {
      shape{"wan", repeated(40, 702'800'000 / scale)},
      shape{"flux", repeated(19, 679'700'000 / scale, 38, 283'200'000 / scale)},
      shape{"qwen", repeated(60, 679'700'000 / scale)},
  };
  outcome result;
  double worst_excess = 0;
  std::uint64_t allocations = 0;
  double worst_pinned = 0;
  double worst_pinned_by_ranks = 0;
  double least_torch = 1e9;
  for (const auto& each : shapes) {
    std::size_t weights = 0;
    std::size_t torch = 0;
    for (const auto bytes : each.blocks) {
      weights += bytes;
      torch += std::bit_ceil(bytes);
    }
    const double rounded = static_cast<double>(torch) / static_cast<double>(weights);
    least_torch = std::min(least_torch, rounded);
    const auto add = [&](const memory_use& use, std::size_t ranks, std::size_t slots) {
      const double pinned = use.pinned / static_cast<double>(weights);
      result.cases.push_back({{"case", each.name},
                              {"ranks", ranks},
                              {"slots", slots},
                              {"device_excess_bytes", use.device_excess},
                              {"allocations_in_steady_steps", use.steady_allocations},
                              {"pinned/weights", pinned},
                              {"torch_rule/weights", rounded}});
      worst_excess = std::max(worst_excess, use.device_excess);
      allocations += use.steady_allocations;
      auto& worst = ranks == 1 ? worst_pinned : worst_pinned_by_ranks;
      worst = std::max(worst, pinned);
    };
    for (const std::size_t slots : {2U, 3U})
      add(alone(each, slots), 1, slots);
    for (const std::size_t ranks : {2U, 4U, 8U})
      add(together(each, ranks), ranks, 2);
  }
  result.met = worst_excess <= 1 << 20 && allocations == 0 && worst_pinned <= 1.02 &&
               worst_pinned_by_ranks <= 1.02 && worst_pinned_by_ranks >= 1 && least_torch >= 1.5;
  result.text = "memory discipline: " + std::to_string(static_cast<long>(worst_excess)) +
                " bytes beyond residents, slots and inputs (target <= 1 MiB), " +
                std::to_string(allocations) + " allocations in steady steps (target 0), pinned " +
                decimal(worst_pinned) + " of the weights, by 2 to 8 ranks together " +
                decimal(worst_pinned_by_ranks) + " (target <= 1.02; by torch's rule " +
                decimal(least_torch) + " or more)";
  return result;
}

} // namespace ferry::bench
