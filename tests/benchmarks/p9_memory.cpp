// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P9: device memory is the residents and the slots and nothing else, a steady step allocates
// nothing, and pinned memory is as large as the weights. The baseline for pinning is the rule of
// torch's pinned allocator, which rounds each block to a power of two.

#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "goal.hpp"

#include <array>
#include <bit>
#include <string>

namespace ferry::bench {

namespace {

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

} // namespace

outcome measure_memory() {
  // Real block sizes divided by 1024, which leaves their ratio to a power of two as it is.
  const std::array shapes = {
      shape{"wan", repeated(40, 702'800'000 / 1024)},
      shape{"flux", repeated(19, 679'700'000 / 1024, 38, 283'200'000 / 1024)},
      shape{"qwen", repeated(60, 679'700'000 / 1024)},
  };
  outcome result;
  double worst_excess = 0;
  std::uint64_t allocations = 0;
  double worst_pinned = 0;
  double least_torch = 1e9;
  for (const auto& each : shapes)
    for (const std::size_t slots : {2U, 3U}) {
      const auto sim = std::make_shared<sim_device>(sim_options{});
      bare_stack stack(sim, std::array{each.blocks}, host_weights::masters, {.slots = slots});
      checked(stack.through().begin_request());
      stack.run_all();
      const auto warm = sim->counters().allocations;
      stack.run_all();
      stack.run_all();
      const auto steady = sim->counters().allocations - warm;
      checked(stack.through().end_request());

      std::size_t weights = 0;
      std::size_t torch = 0;
      std::size_t largest = 0;
      for (const auto bytes : each.blocks) {
        weights += bytes;
        torch += std::bit_ceil(bytes);
        largest = std::max(largest, bytes);
      }
      const auto counters = sim->counters();
      const double excess =
          static_cast<double>(counters.peak_device_bytes) - static_cast<double>(slots * largest);
      const double pinned =
          static_cast<double>(counters.peak_pinned_bytes) / static_cast<double>(weights);
      const double rounded = static_cast<double>(torch) / static_cast<double>(weights);
      result.cases.push_back({{"case", each.name},
                              {"slots", slots},
                              {"device_excess_bytes", excess},
                              {"allocations_in_steady_steps", steady},
                              {"pinned/weights", pinned},
                              {"torch_rule/weights", rounded}});
      worst_excess = std::max(worst_excess, excess);
      allocations += steady;
      worst_pinned = std::max(worst_pinned, pinned);
      least_torch = std::min(least_torch, rounded);
    }
  result.met =
      worst_excess <= 1 << 20 && allocations == 0 && worst_pinned <= 1.02 && least_torch >= 1.5;
  result.text = "memory discipline: " + std::to_string(static_cast<long>(worst_excess)) +
                " bytes beyond residents and slots (target <= 1 MiB), " +
                std::to_string(allocations) + " allocations in steady steps (target 0), pinned " +
                decimal(worst_pinned) + " of the weights (target <= 1.02; by torch's rule " +
                decimal(least_torch) + " or more)";
  return result;
}

} // namespace ferry::bench
