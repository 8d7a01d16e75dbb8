// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P1: the step time of the real runtime on the simulated device against the best that any schedule
// of the same ring can reach.

#include <ferry/offload/planner.hpp>
#include <ferry/offload/schedule_model.hpp>

#include "bare_stack.hpp"
#include "fake_stack.hpp"
#include "goal.hpp"
#include "model_shapes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

constexpr double target = 1.01;
constexpr int steps = 5;
constexpr std::array ratios{0.25, 0.5, 0.9, 1.0, 1.1, 2.0, 4.0}; // Of compute to transfer.

/// Returns the least time of the last of several steps, in seconds: the longer of the two sums if
/// all blocks are alike, otherwise what the schedule model gives.
double bound(const std::vector<block_cost>& costs, std::size_t slots) {
  const auto alike =
      std::ranges::all_of(costs, [&](const block_cost& each) { return each == costs.front(); });
  const auto least = alike ? bounds_of(costs, {.slots = slots}).least()
                           : last_pass(costs, {.slots = slots}, steps);
  return std::chrono::duration<double>(least).count();
}

/// What the planner makes of a model when half of its bytes fit on the device.
struct planned_case {
  planned_configuration best;
  double measured = 0; ///< Of the last step.
};

planned_case planned(const model_shape& streamed, double ratio) {
  fake_stack stack{.bytes = {}, .link = shapes_link / scale, .compute = {}};
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
  for (const auto& each : model_shapes())
    for (const double ratio : ratios)
      for (const std::size_t slots : {2U, 3U}) {
        const auto costs = costs_of(each, ratio);
        const double least = bound(costs, slots);
        const double value = measured_step(each, costs, {.slots = slots}, steps) / least;
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
  for (const auto& each : model_shapes())
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
