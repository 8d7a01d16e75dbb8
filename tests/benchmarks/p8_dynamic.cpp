// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P8: blocks that are skipped, a rank that runs part of the stack, and a switch of the denoiser:
// nothing is loaded while its block waits, and the step stays at the bound of what really ran.

#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "boundless_sim.hpp"
#include "goal.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

namespace ferry::bench {

namespace {

constexpr std::size_t blocks = 40;
constexpr std::size_t block_bytes = 700'000'000;
constexpr double link = 53e9;
constexpr int steps = 20;
constexpr double target = 1.02;

using pass = std::vector<block_id>;

struct measurement {
  std::uint64_t exposed_loads = 0;
  double over_bound = 0; ///< Of all steps but the first, summed.
};

/// Runs the passes; each is announced while the one before it runs.
measurement run(std::size_t rings, double compute_over_transfer,
                const std::function<pass(int step)>& plan) {
  const double transfer = static_cast<double>(block_bytes) / link;
  const double compute = compute_over_transfer * transfer;
  auto options = boundless_sim(link);
  options.compute = nanoseconds{static_cast<std::int64_t>(compute * 1e9)};
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(options);
  sim->attach(ends);
  measurement result;
  double bound = 0;
  std::size_t first_step = 0;
  std::size_t uses = 0;
  {
    const std::vector<std::vector<std::size_t>> sizes(
        rings, std::vector<std::size_t>(blocks, block_bytes));
    bare_stack stack(sim, sizes, host_weights::addresses, {});
    auto next = plan(0);
    checked(stack.through().begin_request());
    checked(stack.through().announce(next));
    for (int step = 0; step < steps; ++step) {
      const auto current = std::exchange(next, plan(step + 1));
      checked(stack.through().announce(next));
      for (const auto block : current)
        stack.run(block);
      uses += current.size();
      if (step == 0)
        first_step = uses;
      else
        bound += static_cast<double>(current.size()) * std::max(transfer, compute);
    }
    result.exposed_loads = checked(stack.through().state()).blocking_loads;
    checked(stack.through().end_request());
  }
  sim->detach(ends);
  result.over_bound = (ends[uses - 1] - ends[first_step - 1]) / bound;
  return result;
}

pass range(std::size_t first, std::size_t last) {
  pass blocks_run;
  for (auto i = first; i < last; ++i)
    blocks_run.push_back(static_cast<block_id>(i));
  return blocks_run;
}

pass skipping(int step) {
  std::mt19937 random(static_cast<unsigned>(1000 + step));
  pass kept;
  for (const auto block : range(0, blocks))
    if (random() % 10 != 0)
      kept.push_back(block);
  return kept;
}

pass part_of_stack(int) {
  return range(10, 30);
}

pass switching(int step) {
  return step < steps / 2 ? range(0, blocks) : range(blocks, 2 * blocks);
}

} // namespace

outcome measure_dynamic() {
  struct scenario {
    const char* name;
    std::size_t rings;
    std::function<pass(int)> plan;
  };
  const std::array scenarios = {scenario{"a tenth skipped at random", 1, skipping},
                                scenario{"part of the stack", 1, part_of_stack},
                                scenario{"switch of the denoiser", 2, switching}};
  outcome result;
  std::uint64_t exposed = 0;
  double worst = 0;
  std::string where;
  for (const auto& each : scenarios)
    for (const double ratio : {0.5, 1.0, 2.0}) {
      const auto measured = run(each.rings, ratio, each.plan);
      result.cases.push_back({{"case", each.name},
                              {"C/T", ratio},
                              {"exposed_loads", measured.exposed_loads},
                              {"step/bound", measured.over_bound}});
      exposed += measured.exposed_loads;
      if (measured.over_bound > worst) {
        worst = measured.over_bound;
        where = std::string(each.name) + ", C/T=" + decimal(ratio);
      }
    }
  result.met = exposed == 0 && worst <= target && worst > 0.98;
  result.text = "dynamic plan: " + std::to_string(exposed) +
                " exposed synchronous loads (target 0), step/bound " + decimal(worst) +
                " (target <= " + decimal(target) + ", worst of " +
                std::to_string(result.cases.size()) + " cases: " + where + ")";
  return result;
}

} // namespace ferry::bench
