// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P12: where compute takes at least half as long again as copies, a streamed step takes as long as
// a resident one. Both in turns, at least 30 steps each.

#include "goal.hpp"
#include "gpu_stack.hpp"

#include <vector>

namespace ferry::bench {

outcome measure_free() {
  constexpr double compute_of_copy = 1.6; // Of which measuring may find a little less.
  constexpr double least = 1.5;
  constexpr double most = 1.7;
  constexpr std::size_t steps = 5;
  constexpr int turns = 7;
  outcome result;
  gpu_stack stack(gpu_to_measure(), {.resident = true});
  const auto rounds = stack.rounds_for(compute_of_copy * stack.copy_seconds());
  static_cast<void>(stack.streamed(1, rounds));
  std::vector<double> ratios;
  std::vector<double> balances;
  for (int i = 0; i < turns; ++i) {
    const bool resident_first = i % 2 == 0;
    const auto before = resident_first ? stack.resident(steps, rounds) : 0;
    const auto streamed = stack.steady(steps, rounds);
    const auto resident = resident_first ? before : stack.resident(steps, rounds);
    const auto copies = stack.copy_seconds() * static_cast<double>(stack.blocks());
    ratios.push_back(streamed / resident);
    balances.push_back(resident / steps / copies);
    result.cases.push_back({{"streamed_step_s", streamed / steps},
                            {"resident_step_s", resident / steps},
                            {"copies_s", copies}});
  }
  const auto ratio = median(ratios);
  const auto balance = median(balances);
  const bool bound = balance >= least && balance <= most;
  result.met = ratio <= 1.01 && bound;
  result.text = "free when compute-bound: " + decimal(ratio) +
                " x a resident step (target <= 1.01) at compute/copies " + decimal(balance) +
                (bound ? "" : ", which is not 1.5 to 1.7") + ", " + std::to_string(turns * steps) +
                " steps each";
  return result;
}

} // namespace ferry::bench
