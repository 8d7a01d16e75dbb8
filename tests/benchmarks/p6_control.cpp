// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P6: what a block costs on the host, through the real actors on a device that costs nothing,
// against the least that two threads can hand a ring of slots to and fro with.

#include "bare_stack.hpp"
#include "condvar_ring.hpp"
#include "goal.hpp"
#include "support/null_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

namespace ferry::bench {

namespace {

constexpr std::size_t slots = 2;
constexpr std::size_t blocks = 57;

/// How much is measured.
struct amount {
  std::size_t passes;
  int repetitions;
};

struct percentiles {
  double p50 = 0;
  double p99 = 0;
};

/// Times passes of `once(n)`, n = 0, 1, ...; in microseconds a call. A pass is the sample because
/// with several slots on their way single uses are either free or wait for more than one.
percentiles time_passes(std::size_t passes, const std::function<void(std::uint64_t)>& once) {
  std::vector<double> times;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto started = std::chrono::steady_clock::now();
    for (std::size_t n = 0; n < blocks; ++n)
      once(n);
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - started;
    times.push_back(took.count() / blocks);
  }
  std::ranges::sort(times);
  return {.p50 = times[times.size() / 2], .p99 = times[times.size() * 99 / 100]};
}

percentiles time_actors(std::size_t passes) {
  const std::array rings{std::vector<std::size_t>(blocks, 4096)};
  bare_stack stack(std::make_shared<test::null_device>(), rings, host_weights::addresses,
                   {.slots = slots});
  checked(stack.through().begin_request());
  for (int warm = 0; warm < 10; ++warm)
    stack.run_all();
  const auto result =
      time_passes(passes, [&](std::uint64_t n) { stack.run(static_cast<block_id>(n % blocks)); });
  checked(stack.through().end_request());
  return result;
}

percentiles time_condvar(std::size_t passes) {
  condvar_ring ring(slots);
  std::uint64_t next = 0;
  const auto once = [&](std::uint64_t) {
    ring.acquire(next);
    ring.release(next);
    ++next;
  };
  for (std::size_t warm = 0; warm < 10 * blocks; ++warm)
    once(0);
  return time_passes(passes, once);
}

outcome control_cost(const amount& much) {
  outcome result;
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> actors_p50;
  std::vector<double> condvar_p50;
  for (int i = 0; i < much.repetitions; ++i) {
    const auto condvar = time_condvar(much.passes);
    const auto actors = time_actors(much.passes);
    p50.push_back(actors.p50 / condvar.p50);
    p99.push_back(actors.p99 / condvar.p99);
    actors_p50.push_back(actors.p50);
    condvar_p50.push_back(condvar.p50);
    result.cases.push_back({{"actors_p50_us", actors.p50},
                            {"actors_p99_us", actors.p99},
                            {"condvar_p50_us", condvar.p50},
                            {"condvar_p99_us", condvar.p99}});
  }
  const double typical = median(p50);
  const double tail = median(p99);
  result.met = typical <= 1.5 && tail <= 2.0;
  result.text = "control cost: " + decimal(typical) + " p50, " + decimal(tail) +
                " p99 of a condition variable loop (target <= 1.5, <= 2.0; medians of " +
                std::to_string(much.repetitions) + ": " + decimal(median(actors_p50)) +
                " us against " + decimal(median(condvar_p50)) + " us a block)";
  return result;
}

} // namespace

outcome measure_control() {
  return control_cost({.passes = 300, .repetitions = 9});
}

outcome try_control() {
  return control_cost({.passes = 2, .repetitions = 1});
}

} // namespace ferry::bench
