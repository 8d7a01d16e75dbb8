// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// What recording costs: the processor time of a run whose blocks compute for 0.5 ms, on all its
// threads, with a trace and without.

#include <ferry/actors/trace_file.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/platform/host_device.hpp>

#include "bare_stack.hpp"
#include "goal.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

namespace ferry::bench {

namespace {

constexpr std::size_t blocks = 57;
constexpr std::size_t passes = 20;
constexpr int repetitions = 7;
constexpr double block_us = 500;

/// Returns what all threads of the process have computed so far, in microseconds.
double processor_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

/// Computes for a block's time.
void compute() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds{500};
  while (std::chrono::steady_clock::now() < until) {
  }
}

struct cost {
  double processor = 0; ///< Beside the bodies, in microseconds a block.
  double wall = 0;      ///< In microseconds a block.
};

/// @param path of the trace; empty: none
cost run_once(const std::filesystem::path& path) {
  const auto gpu =
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 24});
  std::shared_ptr<trace_file> file;
  std::shared_ptr<trace_log> log;
  if (!path.empty()) {
    file = std::make_shared<trace_file>(path, trace_file::time::real);
    log = std::make_shared<trace_log>(file, 0, *gpu);
  }
  const std::array rings{std::vector<std::size_t>(blocks, 4096)};
  bare_stack stack(gpu, rings, host_weights::masters, {.slots = 2, .trace = log});
  checked(stack.through().begin_request());
  stack.run_all();
  const auto processor = processor_us();
  const auto started = std::chrono::steady_clock::now();
  for (std::size_t n = 0; n != passes * blocks; ++n) {
    const auto block = static_cast<block_id>(n % blocks);
    static_cast<void>(stack.gate().acquire(block));
    compute();
    stack.gate().release(block);
  }
  const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - started;
  const auto spent = processor_us() - processor;
  checked(stack.through().end_request());
  const auto uses = static_cast<double>(passes * blocks);
  return {.processor = spent / uses, .wall = wall.count() / uses};
}

} // namespace

outcome measure_trace() {
  const auto path = std::filesystem::temp_directory_path() /
                    ("ferry_bench_trace." + std::to_string(::getpid()) + ".json");
  outcome result;
  std::vector<double> processor;
  std::vector<double> wall;
  for (int i = 0; i < repetitions; ++i) {
    const auto without = run_once({});
    const auto with = run_once(path);
    processor.push_back((with.processor - without.processor) / block_us);
    wall.push_back(with.wall / without.wall);
    result.cases.push_back({{"processor_us", with.processor},
                            {"processor_us_without", without.processor},
                            {"wall_us", with.wall},
                            {"wall_us_without", without.wall}});
  }
  std::filesystem::remove(path);
  const auto share = median(processor);
  result.met = share <= 0.02;
  result.text = "cost of a trace: " + decimal(share * 100) +
                " % of blocks of 0.5 ms in processor time of all threads (target <= 2 %; wall " +
                decimal(median(wall)) + "; medians of " + std::to_string(repetitions) + ")";
  return result;
}

} // namespace ferry::bench
