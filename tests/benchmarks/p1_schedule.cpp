// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P1: the step time of the real runtime on the simulated device against the best that any schedule
// of the same ring can reach.

#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "boundless_sim.hpp"
#include "goal.hpp"
#include "ring_bound.hpp"

#include <array>
#include <cmath>
#include <string>

namespace ferry::bench {

namespace {

constexpr double link = 53e9; // Bytes per second, PCIe 5.
constexpr double target = 1.01;
constexpr int steps = 5;

struct model {
  const char* name;
  std::vector<double> megabytes; ///< Of each block.
};

std::vector<double> repeated(std::size_t count, double value, std::size_t more = 0,
                             double other = 0) {
  std::vector<double> values(count, value);
  values.insert(values.end(), more, other);
  return values;
}

const std::array models = {
    model{"wan", repeated(40, 702.8)},
    model{"flux", repeated(19, 679.7, 38, 283.2)},
    model{"hunyuan", repeated(20, 679.7, 40, 283.2)},
    model{"qwen", repeated(60, 679.7)},
};

/// Returns how long the last of several steps took.
double measured_step(const ring_shape& shape) {
  auto options = boundless_sim(link);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < shape.transfer.size(); ++i) {
    sizes.push_back(static_cast<std::size_t>(std::llround(shape.transfer[i] * link)));
    options.block_compute.emplace_back(std::llround(shape.compute[i] * 1e9));
  }
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(options);
  sim->attach(ends);
  {
    bare_stack stack(sim, std::array{sizes}, host_weights::addresses, {.slots = shape.slots});
    checked(stack.through().begin_request());
    for (int step = 0; step < steps; ++step)
      stack.run_all();
    checked(stack.through().end_request());
  }
  sim->detach(ends);
  if (sim->race_count() > 0)
    throw ferry_error({.code = errc::internal, .detail = "the simulated device saw a race"});
  const auto uses = sizes.size() * steps;
  return ends[uses - 1] - ends[uses - 1 - sizes.size()];
}

} // namespace

outcome measure_schedule() {
  outcome result;
  double worst = 0;
  std::string where;
  for (const auto& each : models)
    for (const double ratio : {0.25, 0.5, 0.9, 1.0, 1.1, 2.0, 4.0})
      for (const std::size_t slots : {2U, 3U}) {
        ring_shape shape{.transfer = {}, .compute = {}, .slots = slots};
        for (const double megabytes : each.megabytes) {
          shape.transfer.push_back(megabytes * 1e6 / link);
          shape.compute.push_back(ratio * shape.transfer.back());
        }
        const double bound = lower_bound(shape, steps);
        const double value = measured_step(shape) / bound;
        std::array<char, 64> label{};
        std::snprintf(label.data(), label.size(), "%s, C/T=%.2g, S=%zu", each.name, ratio, slots);
        result.cases.push_back({{"case", label.data()}, {"step/bound", value}, {"bound_s", bound}});
        if (value > worst) {
          worst = value;
          where = label.data();
        }
      }
  result.met = worst <= target && worst > 0.999;
  result.text = "schedule optimality: " + decimal(worst) + " (target <= " + decimal(target) +
                ", worst of " + std::to_string(result.cases.size()) + " cases: " + where + ")";
  return result;
}

} // namespace ferry::bench
