// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P17: the cost of a block and of a tensor does not grow with how many there are.

#include <ferry/offload/config_legacy.hpp>

#include "bare_stack.hpp"
#include "goal.hpp"
#include "many_tensors.hpp"
#include "support/null_device.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

namespace ferry::bench {

namespace {

/// How much is measured.
struct amount {
  int repetitions;
  std::size_t uses;         ///< Of blocks.
  std::size_t few_tensors;  ///< To enable.
  std::size_t many_tensors; ///< Likewise.
};

/// Returns the processor time of this process, in seconds.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::vector<std::vector<std::size_t>> stack_of(std::size_t rings, std::size_t blocks_each) {
  return {rings, std::vector<std::size_t>(blocks_each, 4096)};
}

/// Returns the processor time a block use costs, in microseconds.
double block_cost(std::size_t uses, std::size_t rings, std::size_t blocks_each) {
  const auto sizes = stack_of(rings, blocks_each);
  bare_stack stack(std::make_shared<test::null_device>(), sizes, host_weights::addresses, {});
  checked(stack.through().begin_request());
  for (std::size_t n = 0; n < std::max(2 * stack.blocks(), uses / 10); ++n)
    stack.run(static_cast<block_id>(n % stack.blocks()));
  const double before = processor_seconds();
  for (std::size_t n = 0; n < uses; ++n)
    stack.run(static_cast<block_id>(n % stack.blocks()));
  const double cost = (processor_seconds() - before) / static_cast<double>(uses) * 1e6;
  checked(stack.through().end_request());
  return cost;
}

/// Returns the processor time a block use costs each of several ranks that are threads, in
/// microseconds.
double block_cost_of_ranks(std::size_t uses, std::size_t ranks) {
  const double before = processor_seconds();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([uses] {
      bare_stack stack(std::make_shared<test::null_device>(), stack_of(1, 57),
                       host_weights::addresses, {});
      for (std::size_t n = 0; n < uses; ++n)
        stack.run(static_cast<block_id>(n % stack.blocks()));
    });
  for (auto& each : threads)
    each.join();
  return (processor_seconds() - before) / static_cast<double>(ranks * uses) * 1e6;
}

struct tensor_cost {
  double enable_us = 0;   ///< Processor time to enable, a tensor.
  double bookkeeping = 0; ///< Bytes held while enabled, a tensor.
};

/// Empties the processor's caches, as they are when a program enables: otherwise a thousand tensors
/// would be measured in the cache and a hundred thousand in memory.
void empty_caches() {
  static std::vector<char> other(std::size_t{128} << 20);
  for (std::size_t i = 0; i < other.size(); i += 64)
    ++other[i];
}

tensor_cost enable_cost(std::size_t tensors) {
  const auto subject = many_tensors(tensors);
  const auto config =
      checked(resolve_config(R"({"mode":"layer","components":["dit"]})", {})).config;
  runtime through(std::make_shared<test::null_device>(), {});
  checked(through.start());
  empty_caches();
  const auto held_before = mallinfo2().uordblks;
  const auto before = processor_seconds();
  checked(through.enable(subject, config));
  const auto spent = processor_seconds() - before;
  const auto held = mallinfo2().uordblks - held_before;
  checked(through.disable());
  const auto count = static_cast<double>(tensors);
  return {.enable_us = spent * 1e6 / count, .bookkeeping = static_cast<double>(held) / count};
}

/// Returns the median of `large() / small()`, measured one after the other.
double ratio(int repetitions, const std::function<double()>& large,
             const std::function<double()>& small) {
  std::vector<double> ratios;
  for (int i = 0; i < repetitions; ++i) {
    const double base = small();
    ratios.push_back(large() / base);
  }
  return median(ratios);
}

outcome growth(const amount& much) {
  const auto compared = [&](const std::function<double()>& large,
                            const std::function<double()>& small) {
    return ratio(much.repetitions, large, small);
  };
  const auto of = [&](std::size_t rings, std::size_t blocks_each) {
    return [&much, rings, blocks_each] { return block_cost(much.uses, rings, blocks_each); };
  };
  const auto of_ranks = [&](std::size_t ranks) {
    return [&much, ranks] { return block_cost_of_ranks(much.uses, ranks); };
  };
  const double blocks = compared(of(1, 1000), of(1, 10));
  const double rings = std::max(compared(of(4, 20), of(1, 80)), compared(of(16, 5), of(1, 80)));
  const double ranks = compared(of_ranks(8), of_ranks(1));
  double bookkeeping = 0;
  const auto enable_many = [&] {
    const auto many = enable_cost(much.many_tensors);
    bookkeeping = std::max(bookkeeping, many.bookkeeping);
    return many.enable_us;
  };
  const auto enable_few = [&] {
    std::vector<double> costs;
    for (int i = 0; i < 20; ++i)
      costs.push_back(enable_cost(much.few_tensors).enable_us);
    return median(costs);
  };
  const double enable = compared(enable_many, enable_few);

  outcome result;
  result.cases = {{{"case", "1000 blocks against 10"}, {"ratio", blocks}},
                  {{"case", "4 or 16 rings against 1"}, {"ratio", rings}},
                  {{"case", "8 ranks against 1, a rank"}, {"ratio", ranks}},
                  {{"case", "enable 100000 tensors against 1000, a tensor"}, {"ratio", enable}},
                  {{"case", "bookkeeping bytes a tensor"}, {"bytes", bookkeeping}}};
  result.met = blocks <= 1.2 && enable <= 1.3 && bookkeeping <= 512 && rings <= 1.3 && ranks <= 1.3;
  result.text = "growth: block cost " + decimal(blocks) + " at 1000 blocks (target <= 1.2), " +
                decimal(rings) + " with rings, " + decimal(ranks) +
                " with ranks (target <= 1.3), enable " + decimal(enable) +
                " at 100000 tensors (target <= 1.3), " +
                std::to_string(static_cast<long>(bookkeeping)) + " bytes a tensor (target <= 512)";
  return result;
}

} // namespace

outcome measure_growth() {
  return growth({.repetitions = 7, .uses = 20'000, .few_tensors = 1'000, .many_tensors = 100'000});
}

outcome try_growth() {
  return growth({.repetitions = 1, .uses = 200, .few_tensors = 100, .many_tensors = 1'000});
}

} // namespace ferry::bench
