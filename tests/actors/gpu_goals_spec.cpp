// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// How the goals that need a GPU measure, on a simulated device whose times are known.

#include <ferry/offload/overlap.hpp>
#include <ferry/platform/sim_device.hpp>

#include "benchmarks/bare_stack.hpp"
#include "benchmarks/boundless_sim.hpp"
#include "benchmarks/gap_watch.hpp"
#include "benchmarks/seconds_to.hpp"
#include "benchmarks/steady_seconds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t blocks = 12;
constexpr std::size_t block_bytes = 53'000'000;
constexpr double copy_seconds = 1e-3; // Of a block over the link below.

/// Equal blocks whose bodies take `compute` of what their copies do.
struct stack_on_sim {
  stack_on_sim(double compute, std::size_t slots)
      : gpu(std::make_shared<sim_device>(options(compute))),
        stack(gpu, std::array{std::vector<std::size_t>(blocks, block_bytes)},
              host_weights::addresses, {.slots = slots}) {
    checked(stack.through().begin_request());
  }

  static sim_options options(double compute) {
    auto made = boundless_sim(53e9);
    made.block_compute.assign(blocks, std::chrono::duration_cast<nanoseconds>(
                                          std::chrono::duration<double>(compute * copy_seconds)));
    return made;
  }

  void run(std::size_t passes) {
    for (std::size_t i = 0; i != passes; ++i)
      stack.run_all();
    gpu->run();
  }

  std::shared_ptr<sim_device> gpu;
  bare_stack stack;
};

TEST_CASE("P11 reads 1 for a stack that keeps the link busy, and no more", "[actors][benchmarks]") {
  const auto [slots, rate] = GENERATE(table<std::size_t, double>({
      {1, 0.75}, // A copy begins when a body has ended.
      {2, 1.0},
      {3, 1.0},
  }));
  constexpr std::size_t passes = 3;
  constexpr double compute = 1.0 / 3;
  CAPTURE(slots);
  stack_on_sim on(compute, slots);
  on.run(1);

  const auto took = steady_seconds(*on.gpu, blocks, passes, [&](std::size_t all) { on.run(all); });

  const auto plain = copy_seconds * static_cast<double>(passes * blocks);
  CHECK(plain / took == Approx(rate).margin(1e-6));
}

TEST_CASE("P12 and P13 read the longer of copies and compute for a stack that loses nothing",
          "[actors][benchmarks]") {
  const auto compute = GENERATE(0.9, 1.0, 1.1, 1.6);
  constexpr std::size_t passes = 5;
  CAPTURE(compute);
  stack_on_sim on(compute, 2);
  on.run(1);

  const auto took = steady_seconds(*on.gpu, blocks, passes, [&](std::size_t all) { on.run(all); });

  const auto longer = std::max(compute, 1.0) * copy_seconds * static_cast<double>(passes * blocks);
  CHECK(took / longer == Approx(1).margin(1e-6));
}

// P14

operation_span span_of(operation_kind kind, const char* what, std::uint64_t ticket,
                       nanoseconds end) {
  return {.kind = kind,
          .stream = {},
          .tag = {.what = what, .block = 0, .ticket = ticket},
          .bytes = 0,
          .enqueued = {},
          .start = {},
          .end = end};
}

TEST_CASE("P14 measures from the end of a late copy to where its block begins, in any order told",
          "[actors][benchmarks]") {
  using enum operation_kind;
  gap_watch watch;
  const auto tell = [&](auto... span) { watch.on_operation(span_of(span...)); };

  tell(copy, "fetch", 2, 14us); // Before it was asked for.
  tell(mark, mark_acquire, 0, 10us);
  tell(mark, mark_begin, 1, 34us);
  tell(copy, "fetch", 1, 25us); // One of two pieces.
  tell(copy, "fetch", 1, 30us);
  tell(mark, mark_acquire, 0, 40us);
  tell(mark, mark_begin, 2, 41us);
  tell(mark, mark_acquire, 0, 50us);
  tell(copy, "fetch", 3, 60us);
  tell(mark, mark_begin, 3, 67us);
  tell(mark, mark_acquire, 0, 70us);
  tell(copy, "fetch", 4, 80us); // Whose block has not begun.

  CHECK(watch.gaps() == std::vector<double>{4, 7});
}

TEST_CASE("P14 finds every block that came late by the marks of the runtime",
          "[actors][benchmarks]") {
  constexpr std::size_t passes = 5;
  const auto gaps = [](double compute) {
    stack_on_sim on(compute, 2);
    gap_watch watch;
    on.gpu->attach(watch);
    on.run(passes);
    on.gpu->detach(watch);
    return watch.gaps();
  };

  const auto link_bound = gaps(1.0 / 3);
  const auto compute_bound = gaps(1.5);

  CHECK(link_bound.size() == passes * blocks - 2); // The first two were enqueued before.
  CHECK(link_bound.front() >= 0);
  CHECK(link_bound.back() < 1);
  CHECK(compute_bound.size() <= 2);
}

// P15

struct counted_clock {
  using duration = std::chrono::seconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<counted_clock>;
  static constexpr bool is_steady = true;
  static time_point now() { return time_point(passed); }
  static inline duration passed{};
};

struct takes_time_to_go {
  ~takes_time_to_go() { counted_clock::passed += 100s; }
};

TEST_CASE("P15 does not count how long memory takes to be given back", "[actors][benchmarks]") {
  const auto seconds = seconds_to<counted_clock>([] {
    counted_clock::passed += 3s;
    return takes_time_to_go();
  });

  CHECK(seconds == 3);
}

} // namespace
} // namespace ferry::bench
