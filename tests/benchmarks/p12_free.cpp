// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P12: where compute takes half as long again as copies, a streamed step takes as long as a
// resident one. Both in turns, at least 30 steps each.

#include "goal.hpp"
#include "gpu_stack.hpp"

#include <vector>

namespace ferry::bench {

outcome measure_free() {
  constexpr double compute_of_copy = 1.5;
  constexpr std::size_t steps = 5;
  constexpr int turns = 7;
  outcome result;
  gpu_stack stack(gpu_to_measure(), {.resident = true});
  const auto rounds = stack.rounds_for(compute_of_copy * stack.copy_seconds());
  static_cast<void>(stack.streamed(1, rounds));
  std::vector<double> ratios;
  for (int i = 0; i < turns; ++i) {
    const bool resident_first = i % 2 == 0;
    const auto before = resident_first ? stack.resident(steps, rounds) : 0;
    const auto streamed = stack.streamed(steps, rounds);
    const auto resident = resident_first ? before : stack.resident(steps, rounds);
    ratios.push_back(streamed / resident);
    result.cases.push_back(
        {{"streamed_step_s", streamed / steps}, {"resident_step_s", resident / steps}});
  }
  const auto ratio = median(ratios);
  result.met = ratio <= 1.01;
  result.text = "free when compute-bound: " + decimal(ratio) +
                " x a resident step (target <= 1.01), " + std::to_string(turns * steps) +
                " steps each";
  return result;
}

} // namespace ferry::bench
