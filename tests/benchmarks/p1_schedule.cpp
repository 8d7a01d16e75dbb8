// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P1: the step time of the real runtime on the simulated device against the best that any schedule
// of the same ring can reach.

#include <ferry/offload/planner.hpp>
#include <ferry/offload/schedule_model.hpp>
#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "boundless_sim.hpp"
#include "fake_stack.hpp"
#include "goal.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

constexpr double link = 53e9; // Bytes per second, PCIe 5.
constexpr double target = 1.01;
constexpr int steps = 5;
constexpr std::array ratios{0.25, 0.5, 0.9, 1.0, 1.1, 2.0, 4.0}; // Of compute to transfer.

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

std::size_t bytes_of(double megabytes) {
  return static_cast<std::size_t>(std::llround(megabytes * 1e6));
}

/// `ratio` is that of compute to transfer.
std::vector<block_cost> costs_of(const model& streamed, double ratio) {
  std::vector<block_cost> costs;
  for (const double megabytes : streamed.megabytes) {
    const auto seconds = static_cast<double>(bytes_of(megabytes)) / link;
    costs.push_back({.compute = nanoseconds{std::llround(ratio * seconds * 1e9)},
                     .pieces = {{.copy = nanoseconds{std::llround(seconds * 1e9)}, .gather = {}}}});
  }
  return costs;
}

/// Returns the least time of the last of several steps, in seconds: the longer of the two sums if
/// all blocks are alike, otherwise what the schedule model gives.
double bound(const std::vector<block_cost>& costs, std::size_t slots) {
  const auto alike =
      std::ranges::all_of(costs, [&](const block_cost& each) { return each == costs.front(); });
  const auto least = alike ? bounds_of(costs, {.slots = slots}).least()
                           : last_pass(costs, {.slots = slots}, steps);
  return std::chrono::duration<double>(least).count();
}

/// Returns how long the last of several steps took.
double measured_step(const model& streamed, const std::vector<block_cost>& costs,
                     std::size_t slots) {
  auto options = boundless_sim(link);
  std::vector<std::size_t> sizes;
  for (const double megabytes : streamed.megabytes)
    sizes.push_back(bytes_of(megabytes));
  for (const auto& each : costs)
    options.block_compute.push_back(each.compute);
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(options);
  sim->attach(ends);
  {
    bare_stack stack(sim, std::array{sizes}, host_weights::addresses, {.slots = slots});
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

/// What the planner makes of a model when half of its bytes fit on the device.
struct planned_case {
  planned_configuration best;
  double measured = 0; ///< Of the last step.
};

planned_case planned(const model& streamed, double ratio) {
  fake_stack stack{.bytes = {}, .link = link / scale, .compute = {}};
  std::size_t all = 0;
  for (const double megabytes : streamed.megabytes) {
    stack.bytes.push_back(scaled(megabytes * 1e6));
    all += stack.bytes.back();
  }
  const auto mean = static_cast<double>(all) / stack.link / static_cast<double>(stack.bytes.size());
  stack.compute = nanoseconds{std::llround(ratio * mean * 1e9)};
  const plan_question question{.rates = {.link = stack.link, .compute = stack.compute},
                               .device_memory = all / 2};
  planned_case made;
  made.best = checked(plan_configurations(*pipeline_of(stack), question)).front();
  made.measured = last_step(stack, made.best.compact, steps);
  return made;
}

} // namespace

outcome measure_schedule() {
  outcome result;
  double worst = 0;
  std::string where;
  for (const auto& each : models)
    for (const double ratio : ratios)
      for (const std::size_t slots : {2U, 3U}) {
        const auto costs = costs_of(each, ratio);
        const double least = bound(costs, slots);
        const double value = measured_step(each, costs, slots) / least;
        std::array<char, 64> label{};
        std::snprintf(label.data(), label.size(), "%s, C/T=%.2g, S=%zu", each.name, ratio, slots);
        result.cases.push_back({{"case", label.data()}, {"step/bound", value}, {"bound_s", least}});
        if (value > worst) {
          worst = value;
          where = label.data();
        }
      }
  const auto streamed = result.cases.size();
  double worst_plan = 0;
  for (const auto& each : models)
    for (const double ratio : ratios) {
      const auto made = planned(each, ratio);
      const double predicted = std::chrono::duration<double>(made.best.step).count();
      const double value = made.measured / predicted;
      result.cases.push_back({{"case", std::string(each.name) + ", planned, C/T=" + decimal(ratio)},
                              {"config", made.best.compact},
                              {"step/predicted", value},
                              {"predicted_s", predicted}});
      worst_plan = std::max(worst_plan, std::max(value, 1 / value));
    }
  result.met = worst <= target && worst > 0.999 && worst_plan <= target;
  result.text = "schedule optimality: " + decimal(worst) + " (target <= " + decimal(target) +
                ", worst of " + std::to_string(streamed) + " cases: " + where +
                "), the planner's choices for half of the memory " + decimal(worst_plan) +
                " of what it predicts (target <= " + decimal(target) + ", worst of " +
                std::to_string(result.cases.size() - streamed) + ")";
  return result;
}

} // namespace ferry::bench
