// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P15: pinned memory that is touched by several threads and then registered is there sooner than
// what cudaHostAlloc makes. In turns, each of fresh pages.

#include <ferry/platform/host_device.hpp>

#include "goal.hpp"
#include "gpu/kernels.hpp"
#include "gpu_stack.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace ferry::bench {

namespace {

template <class Act>
double seconds_of(const Act& act) {
  const auto started = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

} // namespace

outcome measure_cold_start() {
  constexpr std::size_t wanted = std::size_t{16} << 30;
  constexpr int turns = 3;
  const auto bytes = std::min(wanted, installed_memory() / 4);
  const auto gpu = gpu_to_measure();
  outcome result;
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int i = 0; i < turns; ++i) {
    const auto own =
        seconds_of([&] { const memory_block arena(*gpu, memory_kind::pinned, bytes); });
    const auto cuda = seconds_of([&] { test::host_free(test::host_alloc(bytes)); });
    ratios.push_back(cuda / own);
    rates.push_back(static_cast<double>(bytes) / own / (1 << 30));
    result.cases.push_back({{"bytes", bytes}, {"arena_s", own}, {"cudaHostAlloc_s", cuda}});
  }
  const auto ratio = median(ratios);
  result.met = ratio >= 4;
  result.text = "cold start: " + decimal(ratio) + " x as fast as cudaHostAlloc (target >= 4), " +
                decimal(median(rates)) + " GiB/s for " + std::to_string(bytes >> 20) + " MiB";
  return result;
}

} // namespace ferry::bench
