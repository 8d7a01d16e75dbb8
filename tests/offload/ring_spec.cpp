// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/ring.hpp>

#include "support/catch.hpp"
#include "support/ring_model.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <stdexcept>

namespace ferry {
namespace {

using blocks = test::block_numbers;
using test::ids;
using test::rings_of;
using model = test::ring_model;

TEST_CASE("a request begins with the first blocks of the first ring on their way",
          "[offload][ring]") {
  model m(rings_of({4, 4}), 2);

  m.begin_request();

  CHECK(m.on_the_board() == blocks{0, 1});
}

TEST_CASE("a ring wraps without a blocking load, and reads and writes different slots",
          "[offload][ring]") {
  const auto slots = GENERATE(2u, 3u, 4u);
  model m(rings_of({5}), slots);

  m.begin_request();
  m.run({0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  m.run({0, 1, 2});
  m.acquire(3);

  CHECK(m.blocking_loads() == 0);
  CHECK(m.policy.counters().prefetches == 13 + slots);
  CHECK(m.on_the_board().size() == slots);
}

TEST_CASE("one slot serves every block, one after the other", "[offload][ring]") {
  model m(rings_of({3}), 1);

  m.request({0, 1, 2}, 3);
  m.request({2, 0, 1}, 3);

  CHECK(m.blocking_loads() == 1);
}

TEST_CASE("a ring that grows fills its new slots with the next call and forgets nothing",
          "[offload][ring]") {
  model m(rings_of({5}), 2);
  m.request({2, 0, 4}, 2);
  const auto learning = m.blocking_loads();
  m.grow(4);
  CHECK(m.policy.slots() == 4);

  m.begin_request();
  CHECK(m.on_the_board() == blocks{2, 0, 4, 2});
  m.acquire(2);
  m.grow(5);
  m.refill();
  CHECK(m.on_the_board() == blocks{2, 0, 4, 2, 0});
  m.release(2);
  m.run({0, 4, 2, 0, 4});

  CHECK(m.blocking_loads() == learning);
}

TEST_CASE("an order other than the declared one costs nothing after the first step",
          "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.run({2, 0, 3, 1, 2});
  const auto first_step = m.blocking_loads();

  for (int step = 0; step < 5; ++step)
    m.run({0, 3, 1, 2});

  CHECK(m.blocking_loads() == first_step);
}

TEST_CASE("a block that is skipped leaves no ticket behind and costs nothing once seen",
          "[offload][ring]") {
  const auto slots = GENERATE(2u, 3u);
  model m(rings_of({4}), slots);
  m.begin_request();
  for (int round = 0; round < 2; ++round)
    m.run({0, 1, 2, 3, 0, 1, 3});
  const auto learning = m.blocking_loads();

  for (int round = 0; round < 5; ++round)
    m.run({0, 1, 2, 3, 0, 1, 3});

  CHECK(m.blocking_loads() == learning);
  CHECK(m.on_the_board().size() == slots);
  REQUIRE(m.end_request());
  CHECK(m.on_the_board().empty());
}

TEST_CASE("call paths that alternate cost at most one blocking load a switch", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  const blocks full{0, 1, 2, 3};
  const blocks skipping{0, 2, 3};
  m.run(full);
  m.run(skipping);

  std::uint64_t before = m.blocking_loads();
  for (const auto length : {1, 2, 1, 5, 3, 4, 1, 1, 2, 7}) {
    for (int i = 0; i < length; ++i)
      m.run(length % 2 == 0 ? full : skipping);
    CHECK(m.blocking_loads() <= before + 1);
    before = m.blocking_loads();
  }
}

TEST_CASE("a block that runs twice in a row is fetched once for each use", "[offload][ring]") {
  model m(rings_of({3}), 2);
  m.begin_request();
  m.run({0, 1, 1, 2, 0, 1, 1, 2});
  const auto learning = m.blocking_loads();

  m.run({0});
  m.acquire(1);

  CHECK(m.on_the_board() == blocks{1, 1});
  CHECK(m.blocking_loads() == learning);
}

TEST_CASE("a ring with fewer blocks than slots keeps every slot filled", "[offload][ring]") {
  model m(rings_of({2}), 3);

  m.request({0, 1}, 10);

  CHECK(m.blocking_loads() == 0);
  CHECK(m.policy.counters().prefetches == 23);
}

TEST_CASE("two denoisers that switch between steps are known after one request",
          "[offload][ring]") {
  model m(rings_of({2, 5, 5}), 2);
  blocks guided{0, 1, 0, 1};
  for (int step = 0; step < 8; ++step)
    guided.insert(guided.end(), {2, 3, 4, 5, 6});
  for (int step = 0; step < 6; ++step)
    guided.insert(guided.end(), {7, 8, 9, 10, 11});
  m.request(guided);
  const auto first = m.blocking_loads();

  m.request(guided);

  CHECK(first <= 2);
  CHECK(m.blocking_loads() == first);
}

TEST_CASE("blocks skipped at random cost nothing if they are announced", "[offload][ring]") {
  const auto seed = GENERATE(range(1u, 11u));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  model m(rings_of({20}), GENERATE(2u, 3u));
  m.begin_request();

  for (int step = 0; step < 10; ++step) {
    blocks pass;
    for (unsigned block = 0; block < 20; ++block)
      if (random() % 10 != 0)
        pass.push_back(block);
    m.announce(pass);
    m.run(pass);
  }

  CHECK(m.blocking_loads() == 0);
}

TEST_CASE("an announcement replaces what is on its way", "[offload][ring]") {
  model m(rings_of({6}), 2);
  m.begin_request();

  m.announce({3, 1});

  CHECK(m.on_the_board() == blocks{3, 1});
  CHECK(m.policy.counters().revoked == 1);
  CHECK(m.policy.emptied().empty());
}

TEST_CASE("a ticket that is kept outlives the uses now expected before it", "[offload][ring]") {
  model m(rings_of({6}), 3);
  m.begin_request();

  m.announce({5, 1, 2});
  m.run({5, 1});
  m.acquire(2);

  CHECK(m.trace[3].retires_below == 2);
  CHECK(m.policy.counters().revoked == 1);
  CHECK(m.blocking_loads() == 0);
}

TEST_CASE("a ticket that would be retired before its use is replaced at once", "[offload][ring]") {
  model m(rings_of({6}), 3);
  m.begin_request();

  m.announce({1, 0, 2});
  const auto revoked = m.policy.counters().revoked;
  m.run({1, 0});
  m.acquire(2);

  CHECK(m.trace[3].block == block_id{0});
  CHECK(revoked == 1);
  CHECK(m.policy.counters().revoked == revoked);
}

TEST_CASE("an announcement ends with its request", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.announce({3});
  REQUIRE(m.end_request());

  m.begin_request();

  CHECK(m.on_the_board() == blocks{0, 1});
}

TEST_CASE("a demand for a block on its way does nothing", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();

  CHECK(m.policy.on_its_way(block_id{1}));
  CHECK(m.policy.demand(block_id{1})->empty());
  CHECK(m.policy.counters().blocking_loads == 0);
}

TEST_CASE("a demand takes the place of the ticket expected last, and expects on from there",
          "[offload][ring]") {
  model m(rings_of({8}), 3);
  m.begin_request();

  m.acquire(1);
  m.acquire(7);

  CHECK_FALSE(m.policy.on_its_way(block_id{2}));
  CHECK(m.policy.on_its_way(block_id{0}));
  CHECK(m.trace.back().block == block_id{7});
}

TEST_CASE("a demand while every slot is in use is a slot conflict", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.acquire(0);
  m.acquire(1);

  const auto refused = m.policy.demand(block_id{2});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::slot_conflict);
  m.release(0);
  CHECK_NOTHROW(m.acquire(2));
}

TEST_CASE("blocks that no ring has are not found", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();

  CHECK(m.policy.demand(block_id{4}).error().code == errc::not_found);
  CHECK(m.policy.announce(ids({1, 4})).error().code == errc::not_found);
}

TEST_CASE("a release of anything but a slot's current ticket is stale", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.run({0});

  CHECK(m.policy.released(slot_id{0}, 1).error().code == errc::stale_handle);
  CHECK(m.policy.released(slot_id{2}, 1).error().code == errc::stale_handle);
}

TEST_CASE("requests do not nest, and only one that runs can end", "[offload][ring]") {
  model m(rings_of({4}), 2);

  CHECK(m.policy.end_request().error().code == errc::invalid_argument);
  m.begin_request();
  CHECK(m.policy.begin_request().error().code == errc::busy);
}

TEST_CASE("a request does not end while a block is in use", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.acquire(0);

  CHECK(m.policy.end_request().error().code == errc::busy);

  CHECK(m.policy.in_request());
  m.release(0);
  CHECK(m.end_request());
}

TEST_CASE("the end of a request empties every slot and says which", "[offload][ring]") {
  model m(rings_of({4}), 3);
  m.begin_request();
  m.run({0, 1});

  REQUIRE(m.policy.end_request());

  CHECK(m.policy.emptied().size() == 3);
  CHECK(m.on_the_board().empty());
  CHECK(m.policy.counters().revoked == 3);
}

TEST_CASE("outside a request a block is fetched on demand and nothing else is", "[offload][ring]") {
  model m(rings_of({4}), 2);

  m.run({0, 1});

  CHECK(m.blocking_loads() == 2);
  CHECK(m.policy.counters().prefetches == 0);
  CHECK(m.on_the_board().empty());
}

TEST_CASE("a fetch waits for the last use of its slot once there was one", "[offload][ring]") {
  model m(rings_of({6}), 2);
  m.begin_request();
  m.run({0});
  m.acquire(5);

  blocks waits;
  for (const auto& fetch : m.trace)
    waits.push_back(fetch.wait_for_last_use);

  // Blocks 0 and 1, then 2 behind 0. 5 replaces 2, whose copy waited for that use and may have been
  // lost; 0 replaces 1 in a slot that was never used.
  CHECK(waits == blocks{0, 0, 1, 1, 0});
}

TEST_CASE("a release that is not heard of does not keep a request from ending", "[offload][ring]") {
  const auto heard_later = GENERATE(false, true);
  model m(rings_of({4}), 2);
  m.begin_request();
  m.acquire(0);
  m.hold_messages();
  m.release(0);

  REQUIRE(m.policy.end_request());
  if (heard_later)
    m.request({0, 1, 2, 3});
  m.lose_messages();

  CHECK_NOTHROW(m.request({0, 1, 2, 3}));
}

enum class announcements { kept, broken };

/// Random uses of blocks, some of them nested, by a model that mostly keeps to the declared order.
void misbehave(model& m, unsigned seed, unsigned block_count, std::size_t slots,
               announcements promise) {
  std::mt19937 random(seed);
  for (int request = 0; request < 3; ++request) {
    m.begin_request();
    std::deque<unsigned> held;
    std::deque<unsigned> announced;
    unsigned next = 0;
    for (int i = 0; i < 60; ++i) {
      const auto roll = random() % 20;
      next = roll == 0   ? static_cast<unsigned>(random() % block_count)
             : roll == 1 ? (next + 2) % block_count
                         : (next + 1) % block_count;
      if (!announced.empty()) {
        next = announced.front();
        announced.pop_front();
      } else if (roll == 2) {
        const blocks passes{next, (next + 2) % block_count, (next + 3) % block_count};
        m.announce(passes);
        if (promise == announcements::kept)
          announced.assign(passes.begin() + 1, passes.end());
      }
      while (!held.empty() && (held.size() >= slots || random() % 4 != 0 ||
                               std::ranges::find(held, next) != held.end())) {
        m.release(held.front());
        held.pop_front();
      }
      m.acquire(next);
      held.push_back(next);
    }
    for (const auto block : held)
      m.release(block);
    if (!m.end_request() || !m.on_the_board().empty())
      throw std::logic_error("something was left behind");
  }
}

TEST_CASE("every acquire is satisfied and no fetch meets a slot in use, whatever the model does",
          "[offload][ring]") {
  const auto slots = GENERATE(1u, 2u, 3u, 4u, 8u);
  const auto seed = GENERATE(range(1u, 41u));
  INFO("seed " << seed << ", " << slots << " slots");
  const auto block_count = 1 + seed % 12;
  const auto lag_seed = seed % 2 * seed;
  model m(rings_of({block_count}), slots, lag_seed);

  CHECK_NOTHROW(misbehave(m, seed, block_count, slots, announcements::broken));
}

TEST_CASE("what is fetched does not depend on when messages and copies arrive", "[offload][ring]") {
  const auto slots = GENERATE(1u, 2u, 3u, 4u);
  const auto seed = GENERATE(range(1u, 41u));
  INFO("seed " << seed << ", " << slots << " slots");
  const auto block_count = 1 + seed % 12;
  const auto rings = rings_of({block_count});
  model prompt(rings, slots);
  model late(rings, slots, seed);

  misbehave(prompt, seed, block_count, slots, announcements::kept);
  misbehave(late, seed, block_count, slots, announcements::kept);

  CHECK(prompt.trace == late.trace);
  CHECK(prompt.policy.counters() == late.policy.counters());
}

TEST_CASE("a ring that is emptied fetches the same blocks again when it is refilled",
          "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.run({0, 1});
  m.announce({3, 2});

  REQUIRE(m.empty());
  CHECK(m.on_the_board().empty());
  m.refill();

  CHECK(m.on_the_board() == blocks{3, 2});
}

TEST_CASE("a ring is not empty while a block is in use", "[offload][ring]") {
  model m(rings_of({4}), 2);
  m.begin_request();
  m.acquire(0);

  const auto emptied = m.empty();

  REQUIRE_FALSE(emptied);
  CHECK(emptied.error().code == errc::busy);
  m.release(0);
  CHECK(m.empty());
}

/// Announces `order` in a request and leaves it after `ran` uses.
void leave_after(model& m, const blocks& order, std::size_t ran) {
  m.begin_request();
  m.announce(order);
  m.run({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(ran)});
  m.pass_over();
  REQUIRE(m.end_request());
}

/// Returns what is asked for where, whatever was used before.
std::vector<fetch_command> fetches_of(model& m) {
  auto all = m.trace;
  for (auto& each : all)
    each.wait_for_last_use = false;
  return all;
}

TEST_CASE("a request that is left early fetches what it would have run", "[offload][ring]") {
  const auto slots = GENERATE(1u, 2u, 3u, 4u);
  const auto left = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{11});
  const blocks order{0, 1, 2, 3, 4, 2, 3, 3, 4, 2, 4};
  CAPTURE(slots, left);
  const auto rings = rings_of({2, 3});
  model whole(rings, slots);
  model early(rings, slots);

  for (const auto ran : {std::size_t{11}, left, std::size_t{3}}) {
    leave_after(whole, order, 11);
    leave_after(early, order, ran);
  }

  CHECK(fetches_of(early) == fetches_of(whole));
  CHECK(early.policy.counters().prefetches == whole.policy.counters().prefetches);
}

} // namespace
} // namespace ferry
