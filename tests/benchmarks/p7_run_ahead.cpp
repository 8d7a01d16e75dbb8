// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P7: what a step takes when the actor that controls it is held up, against the compute alone: the
// real actors on a device whose copies and computes take real time.

#include "bare_stack.hpp"
#include "condvar_ring.hpp"
#include "goal.hpp"
#include "timed_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ferry::bench {

namespace {

using namespace std::chrono_literals;
using clock = timed_device::clock;

constexpr std::size_t blocks = 57;
constexpr std::size_t steps = 4; // Of a request; the device is waited for at the end of each.
constexpr int repetitions = 5;
constexpr nanoseconds copy_time = 1ms;
constexpr nanoseconds compute_time = 2ms;
constexpr double most = 1.02;

/// How a step is run.
struct variant {
  const char* name;
  nanoseconds delay;
  std::uint64_t every;
  bool on_host = false; ///< Blocks compute on the model thread, which cannot run ahead of them.
  std::size_t slots = 2;
};

constexpr std::array variants = {
    variant{.name = "no delay", .delay = 0ms, .every = 1},
    variant{.name = "0.2 ms, every message", .delay = 200us, .every = 1},
    variant{.name = "0.2 ms, one in 50", .delay = 200us, .every = 50},
    variant{.name = "1 ms, every message", .delay = 1ms, .every = 1},
    variant{.name = "1 ms, one in 50", .delay = 1ms, .every = 50},
    variant{.name = "no delay", .delay = 0ms, .every = 1, .on_host = true},
    variant{.name = "1 ms, every message", .delay = 1ms, .every = 1, .on_host = true},
    variant{.name = "1 ms, every message", .delay = 1ms, .every = 1, .on_host = true, .slots = 3},
};

double in_us(nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

struct sample {
  double step = 0;     ///< Over the compute of its blocks; the mean of the steps.
  double delay_us = 0; ///< What a delay really took, the median.
};

sample run_once(const variant& how) {
  const auto target = std::make_shared<timed_device>(
      copy_time, compute_time, how.on_host,
      delay_plan{.thread = "block_prefetcher", .length = how.delay, .every = how.every});
  const std::array rings{std::vector<std::size_t>(blocks, 4096)};
  bare_stack stack(target, rings, host_weights::addresses, {.slots = how.slots});
  checked(stack.through().begin_request());
  const auto step = [&] {
    for (std::size_t i = 0; i < blocks; ++i) {
      const auto block = static_cast<block_id>(i);
      static_cast<void>(stack.gate().acquire(block));
      if (how.on_host)
        wait_until(clock::now() + compute_time);
      stack.gate().release(block);
    }
    target->drain();
  };
  step(); // The order of the blocks is learned.
  const auto begun = clock::now();
  for (std::size_t i = 0; i < steps; ++i)
    step();
  const std::chrono::duration<double> took = clock::now() - begun;
  checked(stack.through().end_request());
  std::vector<double> delays;
  for (const auto each : target->delays())
    delays.push_back(in_us(each));
  return {.step =
              took.count() / (steps * blocks * std::chrono::duration<double>(compute_time).count()),
          .delay_us = delays.empty() ? 0 : median(delays)};
}

/// Returns what a hand-over between two threads takes here, in microseconds.
double time_condvar() {
  constexpr std::uint64_t uses = 2000;
  condvar_ring ring(1);
  const auto begun = clock::now();
  for (std::uint64_t n = 0; n < uses; ++n) {
    ring.acquire(n);
    ring.release(n);
  }
  return in_us(clock::now() - begun) / uses;
}

/// Returns by how much a sleep of 0.2 ms is late here, in microseconds.
double time_timer() {
  std::vector<double> late;
  for (int i = 0; i < 101; ++i) {
    const auto wanted = clock::now() + 200us;
    std::this_thread::sleep_until(wanted);
    late.push_back(in_us(clock::now() - wanted));
  }
  return median(late);
}

} // namespace

outcome measure_run_ahead() {
  std::vector<double> condvar;
  std::vector<double> timer;
  std::array<std::vector<double>, variants.size()> found;
  std::array<std::vector<double>, variants.size()> delays;
  for (int i = 0; i < repetitions; ++i) {
    condvar.push_back(time_condvar());
    timer.push_back(time_timer());
    for (std::size_t n = 0; n < variants.size(); ++n) {
      const auto taken = run_once(variants[n]);
      found[n].push_back(taken.step);
      delays[n].push_back(taken.delay_us);
    }
  }

  outcome result;
  double worst = 0;
  double undelayed = 0;
  double host_undelayed = 0;
  std::string on_host;
  for (std::size_t n = 0; n < variants.size(); ++n) {
    const auto& how = variants[n];
    const auto typical = median(found[n]);
    result.cases.push_back({{"delay", how.name},
                            {"computes_on", how.on_host ? "host" : "device"},
                            {"slots", how.slots},
                            {"step/compute", typical},
                            {"step/compute_of_each", found[n]},
                            {"delay_us", median(delays[n])}});
    const bool delayed = how.delay != nanoseconds::zero();
    if (!how.on_host)
      (delayed ? worst : undelayed) = std::max(delayed ? worst : undelayed, typical);
    else if (!delayed)
      host_undelayed = typical;
    else
      on_host += ", " + decimal(typical) + " with 1 ms and " + std::to_string(how.slots) + " slots";
  }
  result.met = worst <= most;
  result.text = "run-ahead: " + decimal(worst) +
                " of the compute with the control actor held up (target <= " + decimal(most) +
                ", worst of 4 ways, medians of " + std::to_string(repetitions) + "), " +
                decimal(undelayed) + " undelayed; where blocks compute on the host " +
                decimal(host_undelayed) + on_host + "; here two threads take " +
                decimal(median(condvar)) + " us to and fro and a timer is " +
                decimal(median(timer)) + " us late";
  return result;
}

} // namespace ferry::bench
