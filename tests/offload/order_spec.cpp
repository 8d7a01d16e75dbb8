// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/order.hpp>

#include "support/catch.hpp"

#include <numeric>
#include <random>
#include <utility>

namespace ferry {
namespace {

using uses = std::vector<unsigned>;

/// Rings of so many blocks each, numbered through.
std::vector<planned_ring> rings_of(std::initializer_list<unsigned> sizes) {
  std::vector<planned_ring> rings;
  unsigned next = 0;
  for (const auto size : sizes) {
    auto& ring = rings.emplace_back();
    for (unsigned i = 0; i < size; ++i)
      ring.blocks.push_back(block_id{next++});
  }
  return rings;
}

uses run(unsigned first, unsigned last) {
  uses all(last - first + 1);
  std::iota(all.begin(), all.end(), first);
  return all;
}

uses operator+(uses a, const uses& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

uses times(unsigned count, const uses& what) {
  uses all;
  for (unsigned i = 0; i < count; ++i)
    all = std::move(all) + what;
  return all;
}

uses predicted(const execution_order& order, std::size_t count) {
  std::vector<block_id> next(count);
  next.resize(order.predict(next));
  uses all;
  for (const auto block : next)
    all.push_back(static_cast<unsigned>(block));
  return all;
}

/// Records `blocks`, and returns how many of them were not predicted.
unsigned follow(execution_order& order, const uses& blocks) {
  unsigned wrong = 0;
  for (const auto block : blocks) {
    wrong += predicted(order, 1) != uses{block};
    order.record(block_id{block});
  }
  return wrong;
}

unsigned request(execution_order& order, const uses& blocks) {
  order.begin_request();
  const auto wrong = follow(order, blocks);
  order.end_request();
  return wrong;
}

TEST_CASE("a fresh request is expected to run the first ring as declared", "[offload][order]") {
  execution_order order(rings_of({3, 2}));
  order.begin_request();

  CHECK(predicted(order, 5) == uses{0, 1, 2, 0, 1});
}

TEST_CASE("a block that never ran is followed by the next of its own ring, wrapping",
          "[offload][order]") {
  execution_order order(rings_of({3, 2}));
  order.begin_request();

  order.record(block_id{4});

  CHECK(predicted(order, 3) == uses{3, 4, 3});
}

TEST_CASE("without blocks nothing is predicted", "[offload][order]") {
  execution_order order({});
  order.begin_request();

  CHECK(predicted(order, 2).empty());
}

TEST_CASE("an order other than the declared one is known after one pass", "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  follow(order, {2, 0, 3, 1, 2});

  CHECK(follow(order, times(5, {0, 3, 1, 2})) == 0);
}

TEST_CASE("predictions reach further than the sequence is long", "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  follow(order, {3, 1, 3});

  CHECK(predicted(order, 5) == uses{1, 3, 1, 3, 1});
}

TEST_CASE("two call paths that alternate are told apart once both were seen", "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  const auto both = uses{0, 1, 2, 3} + uses{0, 2, 3};

  CHECK(follow(order, both + both) <= 3);
  CHECK(follow(order, times(10, both)) == 0);
}

TEST_CASE("an irregular switch between call paths costs at most one wrong prediction",
          "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  const uses full{0, 1, 2, 3};
  const uses skipping{0, 2, 3};
  follow(order, times(3, full) + times(3, skipping));

  CHECK(follow(order, times(4, full)) <= 1);
  CHECK(follow(order, times(2, skipping)) <= 1);
  CHECK(follow(order, times(5, full)) <= 1);
  CHECK(follow(order, times(7, skipping)) <= 1);
}

TEST_CASE("a block that is skipped every other step is known after two rounds",
          "[offload][order]") {
  execution_order order(rings_of({40}));
  order.begin_request();
  const auto two_steps = run(0, 39) + run(0, 6) + run(8, 39);
  follow(order, two_steps + two_steps);

  CHECK(follow(order, times(4, two_steps)) == 0);
}

TEST_CASE("a block that is skipped once costs two wrong predictions", "[offload][order]") {
  execution_order order(rings_of({40}));
  order.begin_request();
  follow(order, times(4, run(0, 39)));

  CHECK(follow(order, run(0, 6) + run(8, 39) + times(4, run(0, 39))) == 2);
}

TEST_CASE("a block that runs twice in a row is expected twice", "[offload][order]") {
  execution_order order(rings_of({3}));
  order.begin_request();
  follow(order, {0, 1, 1, 2, 0});

  CHECK(predicted(order, 4) == uses{1, 1, 2, 0});
}

TEST_CASE("a request is expected to run like the one before, from its first block on",
          "[offload][order]") {
  execution_order order(rings_of({2, 3, 3}));
  const auto guided = times(2, {0, 1}) + times(8, {2, 3, 4}) + times(4, {5, 6, 7});
  request(order, guided);

  CHECK(request(order, guided) == 0);
}

TEST_CASE("a switch of denoisers at another step costs two wrong predictions, and then none",
          "[offload][order]") {
  execution_order order(rings_of({2, 40, 40}));
  const auto steps = [](unsigned high, unsigned low) {
    return run(0, 1) + times(2 * high, run(2, 41)) + times(2 * low, run(42, 81));
  };
  request(order, steps(5, 5));

  CHECK(request(order, steps(10, 10)) <= 2);
  CHECK(request(order, steps(10, 10)) == 0);
  CHECK(request(order, steps(3, 4)) <= 2);
  CHECK(request(order, steps(3, 4)) == 0);
}

TEST_CASE("a longer request goes on where the one before ended", "[offload][order]") {
  execution_order order(rings_of({40}));
  request(order, times(3, run(0, 39)));

  CHECK(request(order, times(9, run(0, 39))) == 0);
}

TEST_CASE("looking ahead sees past the end of the request before", "[offload][order]") {
  execution_order order(rings_of({4}));
  request(order, times(2, {3, 2, 1}));
  order.begin_request();
  follow(order, {3, 2, 1, 3});

  CHECK(predicted(order, 5) == uses{2, 1, 3, 2, 1});
}

TEST_CASE("what happens outside requests is not taken for their beginning", "[offload][order]") {
  execution_order order(rings_of({4}));
  request(order, {2, 3});
  order.record(block_id{1});

  order.begin_request();

  CHECK(predicted(order, 2) == uses{2, 3});
}

TEST_CASE("an announcement is followed exactly, and learning goes on behind it",
          "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  follow(order, times(2, {0, 1, 2, 3}));

  const std::vector announced{block_id{0}, block_id{2}, block_id{3}};
  order.announce(announced);

  CHECK(predicted(order, 6) == uses{0, 2, 3, 0, 1, 2});
  CHECK(follow(order, {0, 2, 3, 0}) == 0);
}

TEST_CASE("announcements queue up", "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  order.announce(std::vector{block_id{0}, block_id{3}});
  order.record(block_id{0});

  order.announce(std::vector{block_id{1}});

  CHECK(predicted(order, 2) == uses{3, 1});
}

TEST_CASE("a use that skips announced blocks drops them, and one that is not announced drops all",
          "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  order.announce(std::vector{block_id{2}, block_id{0}, block_id{3}, block_id{0}});

  order.record(block_id{0});
  const auto after_skip = predicted(order, 2);
  order.record(block_id{1});

  CHECK(after_skip == uses{3, 0});
  CHECK(predicted(order, 2) == uses{2, 3});
}

TEST_CASE("an announcement does not outlive its request", "[offload][order]") {
  execution_order order(rings_of({4}));
  order.begin_request();
  order.announce(std::vector{block_id{3}});
  order.end_request();

  order.begin_request();

  CHECK(predicted(order, 1) == uses{0});
}

TEST_CASE("a history longer than what is kept goes on being predicted", "[offload][order]") {
  execution_order order(rings_of({3}));
  order.begin_request();
  follow(order, {0, 2, 1, 0});

  CHECK(follow(order, times(5000, {2, 1, 0})) == 0);
}

TEST_CASE("a request longer than the history starts from the declared order", "[offload][order]") {
  execution_order order(rings_of({2}));
  request(order, times(2000, {0, 1}));

  CHECK(request(order, times(2000, {0, 1})) == 0);
}

TEST_CASE("any periodic sequence is known after two periods", "[offload][order]") {
  const auto seed = GENERATE(range(0u, 40u));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  uses period(1 + random() % 30);
  for (auto& block : period)
    block = static_cast<unsigned>(random() % 8);
  execution_order order(rings_of({8}));
  order.begin_request();
  follow(order, times(3, period));

  CHECK(follow(order, times(4, period)) == 0);
}

} // namespace
} // namespace ferry
