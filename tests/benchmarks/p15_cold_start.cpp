// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P15: pinned memory that is touched by several threads and then registered is there sooner than
// what cudaHostAlloc makes. In turns, each of fresh pages. And a request whose weights the device
// reads from registered pages of a file takes no longer than one that stages them, in turns too.

#include <ferry/platform/host_device.hpp>

#include "goal.hpp"
#include "gpu/kernels.hpp"
#include "gpu_stack.hpp"
#include "leased_stack.hpp"
#include "seconds_to.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::bench {

namespace {

/// How many times as long as cudaHostAlloc our arena takes to be there, and at which rate it is.
struct pinning {
  double speedup = 0;
  double bytes_per_second = 0;
  std::size_t bytes = 0;
};

pinning measure_pinning(const std::shared_ptr<cuda_device>& gpu, outcome& noted) {
  constexpr std::size_t wanted = std::size_t{16} << 30;
  constexpr int turns = 3;
  const auto bytes = std::min(wanted, installed_memory() / 4);
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int i = 0; i < turns; ++i) {
    const auto own = seconds_to([&] { return memory_block(*gpu, memory_kind::pinned, bytes); });
    const auto cuda = seconds_to([&] {
      return std::unique_ptr<void, decltype(&test::host_free)>(test::host_alloc(bytes),
                                                               &test::host_free);
    });
    ratios.push_back(cuda / own);
    rates.push_back(static_cast<double>(bytes) / own);
    noted.cases.push_back({{"bytes", bytes}, {"arena_s", own}, {"cudaHostAlloc_s", cuda}});
  }
  return {.speedup = median(ratios), .bytes_per_second = median(rates), .bytes = bytes};
}

/// Returns how many times as long a request from registered pages takes as one that stages them.
double measure_pages(const std::shared_ptr<cuda_device>& gpu, outcome& noted) {
  constexpr std::size_t blocks = 12;
  constexpr std::size_t block_bytes = std::size_t{256} << 20;
  constexpr std::size_t steps = 3;
  constexpr int turns = 5;
  const test::scratch_directory scratch;
  const auto path = scratch.write("weights.bin", "");
  std::filesystem::resize_file(path, blocks * block_bytes);
  const auto file = std::make_shared<const mapped_file>(path);
  const auto callers = std::make_shared<test::model_streams>(*gpu, 1);
  const auto seconds = [&](page_access how) {
    leased_stack stack(gpu, file, blocks, how, {.callers = callers});
    const auto run = [&] {
      stack.request(steps);
      callers->synchronize();
    };
    run(); // Reads the file.
    return seconds_to([&] {
      run();
      return 0;
    });
  };
  std::vector<double> ratios;
  for (int i = 0; i < turns; ++i) {
    const auto registered = seconds(page_access::registered);
    const auto staged = seconds(page_access::staged);
    ratios.push_back(registered / staged);
    noted.cases.push_back({{"bytes", steps * blocks * block_bytes},
                           {"registered_s", registered},
                           {"staged_s", staged}});
  }
  return median(ratios);
}

} // namespace

outcome measure_cold_start() {
  const auto gpu = gpu_to_measure();
  outcome result;
  const auto arena = measure_pinning(gpu, result);
  result.met = arena.speedup >= 4;
  result.text = "cold start: " + decimal(arena.speedup) +
                " x as fast as cudaHostAlloc (target >= 4), " +
                decimal(arena.bytes_per_second / (1 << 30)) + " GiB/s for " +
                std::to_string(arena.bytes >> 20) + " MiB; ";
  if (!gpu->traits().registers_pages) {
    result.text += "this GPU has no read-only registration to compare with staging";
    return result;
  }
  const auto pages = measure_pages(gpu, result);
  result.met = result.met && pages <= 1;
  result.text += "a request from registered pages takes " + decimal(pages) +
                 " of one that stages them (target <= 1)";
  return result;
}

} // namespace ferry::bench
