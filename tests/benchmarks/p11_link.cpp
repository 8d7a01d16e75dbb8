// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P11: where the link is the limit, streaming moves as many bytes a second as plain copies of the
// same blocks, one behind the other, in the same run.

#include "goal.hpp"
#include "gpu_stack.hpp"

#include <vector>

namespace ferry::bench {

outcome measure_link() {
  constexpr double compute_of_copy = 0.33;
  constexpr std::size_t passes = 3;
  constexpr int repetitions = 5;
  outcome result;
  gpu_stack stack(gpu_to_measure(), {});
  const auto rounds = stack.rounds_for(compute_of_copy * stack.copy_seconds());
  static_cast<void>(stack.streamed(1, rounds));
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int i = 0; i < repetitions; ++i) {
    const auto plain = stack.copy_seconds() * static_cast<double>(passes * stack.blocks());
    const auto took = stack.steady(passes, rounds);
    ratios.push_back(plain / took);
    rates.push_back(static_cast<double>(passes * stack.bytes()) / took / 1e9);
    result.cases.push_back({{"plain_s", plain}, {"streamed_s", took}, {"GB/s", rates.back()}});
  }
  const auto ratio = median(ratios);
  result.met = ratio >= 0.97;
  result.text = "link saturation: " + decimal(ratio) + " of plain copies (target >= 0.97), " +
                decimal(median(rates)) + " GB/s";
  return result;
}

} // namespace ferry::bench
