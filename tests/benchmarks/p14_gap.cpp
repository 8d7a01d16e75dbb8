// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P14: how soon compute goes on once its weights are there, what a block costs the thread that runs
// the model, and how many calls were made that a step may not make. The gap is measured with timed
// events, in a run of its own.

#include "gap_watch.hpp"
#include "goal.hpp"
#include "gpu/slow_gpu.hpp"
#include "gpu_stack.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

double percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty()
             ? 0
             : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

} // namespace

outcome measure_gap() {
  constexpr std::size_t passes = 20;
  constexpr double late = 0.33;
  constexpr double early = 1.5;
  const auto gpu = std::make_shared<test::slow_gpu>(gpu_to_measure(), test::slowness{});
  gpu_stack stack(gpu, {.bytes = std::size_t{64} << 20});
  const auto copy = stack.copy_seconds();

  const auto link_bound = stack.rounds_for(late * copy);
  static_cast<void>(stack.streamed(1, link_bound));
  gap_watch watch;
  gpu->attach(watch);
  static_cast<void>(stack.streamed(passes, link_bound));
  static_cast<void>(stack.streamed(1, link_bound)); // Spans are told when the device is used.
  gpu->detach(watch);
  const auto gaps = watch.gaps();

  const auto compute_bound = stack.rounds_for(early * copy);
  static_cast<void>(stack.streamed(1, compute_bound));
  const auto before = gpu->forbidden_calls();
  auto submits = stack.submit_seconds(passes, compute_bound);
  // The pass is timed from and to a wait for the stream of the model, which is not Ferry's.
  const auto forbidden = gpu->forbidden_calls() - before - 2;
  std::ranges::sort(submits);

  const auto gap_p50 = percentile(gaps, 0.5);
  const auto gap_p99 = percentile(gaps, 0.99);
  const auto submit = percentile(submits, 0.5) * 1e6;
  outcome result;
  result.cases.push_back({{"gaps", gaps.size()},
                          {"gap_p50_us", gap_p50},
                          {"gap_p99_us", gap_p99},
                          {"submit_p50_us", submit},
                          {"submit_p99_us", percentile(submits, 0.99) * 1e6},
                          {"forbidden_calls", forbidden}});
  result.met = !gaps.empty() && gap_p50 <= 5 && gap_p99 <= 20 && submit <= 60 && forbidden == 0;
  result.text = "gap and submit: p50 " + decimal(gap_p50) + " us, p99 " + decimal(gap_p99) +
                " us over " + std::to_string(gaps.size()) + " late blocks (targets 5 and 20), " +
                decimal(submit) + " us of the model thread per block (target <= 60), " +
                std::to_string(forbidden) + " forbidden calls (target 0)";
  return result;
}

} // namespace ferry::bench
