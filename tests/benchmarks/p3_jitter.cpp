// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P3: what is left of a link's jitter with the slots that the runtime comes to take by itself,
// against what two slots leave.

#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "boundless_sim.hpp"
#include "goal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace ferry::bench {

namespace {

constexpr std::size_t blocks = 40;
constexpr std::size_t steps = 10; // Of a request.
constexpr std::size_t requests = 10;
constexpr std::size_t block_bytes = 702'800'000;
constexpr double link = 53e9;
constexpr double variation = 0.5;
constexpr double transfer = block_bytes / link;
constexpr double compute = transfer / 0.9;

constexpr double most_with_more = 1.04;
constexpr double least_with_two = 1.12;
constexpr std::size_t most_slots = 4;

struct session {
  double overall = 0; ///< Time of all requests over their compute, learning included.
  double last = 0;    ///< Of the last half of the requests.
  std::size_t slots = 0;
};

session run(std::uint64_t seed, const runtime_options& slots) {
  auto options = boundless_sim(link);
  options.jitter = variation;
  options.seed = seed;
  options.compute = nanoseconds{std::llround(compute * 1e9)};
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(options);
  sim->attach(ends);
  session result;
  {
    const std::array sizes{std::vector<std::size_t>(blocks, block_bytes)};
    bare_stack stack(sim, sizes, host_weights::addresses, slots);
    for (std::size_t request = 0; request < requests; ++request) {
      checked(stack.through().begin_request());
      for (std::size_t step = 0; step < steps; ++step)
        stack.run_all();
      checked(stack.through().end_request());
    }
    result.slots = checked(stack.through().state()).slots;
  }
  sim->detach(ends);
  if (sim->race_count() > 0)
    throw ferry_error({.code = errc::internal, .detail = "the simulated device saw a race"});
  constexpr auto uses = blocks * steps * requests;
  result.overall = ends[uses - 1] / (uses * compute);
  result.last = (ends[uses - 1] - ends[uses / 2 - 1]) / (uses / 2 * compute);
  return result;
}

} // namespace

outcome measure_jitter() {
  outcome result;
  double worst = 0;
  double worst_last = 0;
  double least_two = 1e9;
  std::size_t slots = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    const auto two = run(seed, {.slots = 2});
    const auto more = run(seed, {.slots = 2, .most_slots = most_slots});
    result.cases.push_back({{"seed", seed},
                            {"two_slots/compute", two.overall},
                            {"automatic/compute", more.overall},
                            {"automatic_last_half/compute", more.last},
                            {"automatic_slots", more.slots}});
    worst = std::max(worst, more.overall);
    worst_last = std::max(worst_last, more.last);
    least_two = std::min(least_two, two.overall);
    slots = std::max(slots, more.slots);
  }
  result.met = worst <= most_with_more && worst_last <= most_with_more &&
               least_two >= least_with_two && slots <= most_slots;
  result.text = "jitter: " + decimal(worst) +
                " of the compute with slots added by need (target <= " + decimal(most_with_more) +
                ", worst of " + std::to_string(result.cases.size()) +
                " seeds, learning included; " + decimal(worst_last) + " afterwards) and " +
                std::to_string(slots) + " slots (target <= " + std::to_string(most_slots) +
                "), with two slots " + decimal(least_two) +
                " or more (target >= " + decimal(least_with_two) + ")";
  return result;
}

} // namespace ferry::bench
