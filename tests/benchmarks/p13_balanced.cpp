// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P13: where compute and copies take the same time, a step takes as long as the longer of the two,
// and copies hardly slow compute down.

#include "goal.hpp"
#include "gpu_stack.hpp"

#include <algorithm>
#include <vector>

namespace ferry::bench {

outcome measure_balanced() {
  constexpr std::size_t steps = 5;
  constexpr int repetitions = 5;
  outcome result;
  gpu_stack stack(gpu_to_measure(), {.resident = true});
  const auto rounds = stack.rounds_for(stack.copy_seconds());
  static_cast<void>(stack.streamed(1, rounds));
  std::vector<double> ratios;
  std::vector<double> stretches;
  std::vector<double> balances;
  for (int i = 0; i < repetitions; ++i) {
    const auto copies = stack.copy_seconds() * static_cast<double>(stack.blocks());
    const auto compute = stack.resident(steps, rounds) / steps;
    const auto streamed = stack.steady(steps, rounds) / steps;
    const auto beside = stack.resident_beside_copies(steps, rounds) / steps;
    ratios.push_back(streamed / std::max(copies, compute));
    stretches.push_back(beside / compute);
    balances.push_back(compute / copies);
    result.cases.push_back({{"copies_s", copies},
                            {"compute_s", compute},
                            {"step_s", streamed},
                            {"compute_beside_copies_s", beside}});
  }
  const auto ratio = median(ratios);
  const auto stretch = median(stretches);
  const auto balance = median(balances);
  const bool balanced = balance >= 0.9 && balance <= 1.1;
  result.met = ratio <= 1.05 && stretch <= 1.02 && balanced;
  result.text = "balanced: " + decimal(ratio) +
                " x the longer of copies and compute (target <= 1.05), compute stretched by " +
                decimal(stretch) + " (target <= 1.02) at compute/copies " + decimal(balance) +
                (balanced ? "" : ", which is not 1.0 +/- 0.1");
  return result;
}

} // namespace ferry::bench
