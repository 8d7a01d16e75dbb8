// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P5: the time of a pass where several passes use each block while it is on the device, against
// that of passes one after another, where the link is the limit.

#include <ferry/offload/schedule_model.hpp>

#include "goal.hpp"
#include "model_shapes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

constexpr double target = 0.95;
constexpr double stretch = 0.98;
constexpr double too_good = 1.01; // Passes one after another are slower than they have to be.
constexpr int steps = 5;
constexpr std::array ratios{1.5, 2.0, 3.0, 4.0, 5.0}; // Of transfer to compute.
constexpr std::array<std::size_t, 2> shared{2, 4};

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Returns how many times faster a pass is with `passes` to a fetch, both as measured.
double speed_up(const model_shape& streamed, const std::vector<block_cost>& costs,
                std::size_t passes) {
  const auto alone = measured_step(streamed, costs, {.slots = 2}, steps);
  const auto together = measured_step(streamed, costs, {.slots = 2, .passes = passes}, steps);
  return alone * static_cast<double>(passes) / together;
}

/// FLUX on an H100: its blocks come in unlike times and compute in like ones, so that with four
/// passes some wait for the link and others for compute. Returns the speed-up over what the
/// recurrence allows.
double unlike(std::size_t passes, outcome& into) {
  const auto& flux = model_shapes()[1];
  auto costs = costs_of(flux, 1);
  for (auto& each : costs)
    each.compute = std::chrono::microseconds{2509};
  const auto possible = seconds(last_pass(costs, {.slots = 2}, steps)) *
                        static_cast<double>(passes) /
                        seconds(last_pass(costs, {.slots = 2, .passes = passes}, steps));
  const auto value = speed_up(flux, costs, passes);
  into.cases.push_back({{"case", "flux, 2.5 ms a block, K=" + std::to_string(passes)},
                        {"speed_up", value},
                        {"of_the_recurrence", value / possible}});
  return value / possible;
}

} // namespace

outcome measure_sharing() {
  outcome result;
  auto worst = std::numeric_limits<double>::infinity();
  double best = 0;
  for (const auto& each : model_shapes())
    for (const double ratio : ratios)
      for (const auto passes : shared) {
        const auto costs = costs_of(each, 1 / ratio);
        const auto possible = std::min(static_cast<double>(passes), std::max(1.0, ratio));
        const auto value = speed_up(each, costs, passes);
        result.cases.push_back({{"case", std::string(each.name) + ", T/C=" + decimal(ratio) +
                                             ", K=" + std::to_string(passes)},
                                {"speed_up", value},
                                {"of_the_bound", value / possible}});
        worst = std::min(worst, value / possible);
        best = std::max(best, value / possible);
      }
  const auto alike = result.cases.size();
  const auto unlike_two = unlike(2, result);
  const auto unlike_four = unlike(4, result);
  const auto worst_unlike = std::min(unlike_two, unlike_four);
  result.met = worst >= target && best <= too_good && worst_unlike >= target;
  result.text = "weight sharing: " + decimal(worst) +
                " of min(K, T/C) times faster (target >= " + decimal(target) + ", stretch " +
                decimal(stretch) + ", worst of " + std::to_string(alike) + " cases), " +
                decimal(worst_unlike) + " of what the recurrence allows unlike blocks";
  return result;
}

} // namespace ferry::bench
