// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ticket_board.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <thread>

namespace ferry {
namespace {

using namespace std::chrono_literals;

constexpr slot_id first{0};
constexpr slot_id second{1};
constexpr block_id wanted{7};

TEST_CASE("a requested block can be taken once it is published, and only once", "[actors][board]") {
  ticket_board board{2};

  board.request({.block = wanted, .slot = second, .generation = 5, .retires_below = 3});
  CHECK_FALSE(board.take(wanted, 0));
  board.publish(second, 5, {});
  const auto taken = board.take(wanted, 0);

  REQUIRE(taken);
  CHECK(taken->slot == second);
  CHECK(taken->generation == 5);
  CHECK(taken->retires_below == 3);
  CHECK_FALSE(board.take(wanted, 0));
}

TEST_CASE("of several tickets for a block the oldest that is not retired is taken",
          "[actors][board]") {
  ticket_board board{3};
  for (std::uint32_t i = 0; i != 3; ++i) {
    board.request({.block = wanted, .slot = slot_id{i}, .generation = 12 - i});
    board.publish(slot_id{i}, 12 - i, {});
  }

  CHECK(board.take(wanted, 11)->generation == 11);
  CHECK(board.take(wanted, 0)->generation == 10);
}

TEST_CASE("a block is on its way from its request until it is taken, unless it is retired",
          "[actors][board]") {
  ticket_board board{1};
  CHECK_FALSE(board.on_its_way(wanted, 0));
  board.request({.block = wanted, .slot = first, .generation = 4});

  CHECK(board.on_its_way(wanted, 4));
  CHECK_FALSE(board.on_its_way(wanted, 5));
  board.publish(first, 4, {});
  CHECK(board.on_its_way(wanted, 4));
  REQUIRE(board.take(wanted, 0));
  CHECK_FALSE(board.on_its_way(wanted, 0));
}

TEST_CASE("a revoked ticket cannot be taken, not even if it is published later",
          "[actors][board]") {
  ticket_board board{1};
  board.request({.block = wanted, .slot = first, .generation = 1});

  CHECK(board.revoke(first, 1));
  board.publish(first, 1, {});

  CHECK_FALSE(board.take(wanted, 0));
  CHECK(board.count().free == 1);
}

TEST_CASE("a ticket in use cannot be revoked", "[actors][board]") {
  ticket_board board{1};
  board.request({.block = wanted, .slot = first, .generation = 1});
  board.publish(first, 1, {});
  REQUIRE(board.take(wanted, 0));

  CHECK_FALSE(board.revoke(first, 1));
  CHECK(board.count().in_use == 1);
}

TEST_CASE("a stale publication changes nothing", "[actors][board]") {
  ticket_board board{1};
  board.request({.block = wanted, .slot = first, .generation = 1});
  REQUIRE(board.revoke(first, 1));
  board.request({.block = block_id{8}, .slot = first, .generation = 2});

  board.publish(first, 1, {});

  CHECK_FALSE(board.take(wanted, 0));
  CHECK_FALSE(board.take(block_id{8}, 0));
}

TEST_CASE("whoever waits for a block gets it from another thread's publication",
          "[actors][board]") {
  ticket_board board{1};
  board.request({.block = wanted, .slot = first, .generation = 1});

  std::thread publisher{[&] { board.publish(first, 1, {}); }};
  const auto taken = board.wait_for(wanted, 0, 10s);
  publisher.join();

  CHECK(taken);
}

TEST_CASE("whoever waits for a block hears of a failure at once", "[actors][board]") {
  ticket_board board{1};

  std::thread failing{[&] { board.fail({errc::device_failure, "copy failed"}); }};
  const auto taken = board.wait_for(wanted, 0, 10min);
  failing.join();

  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == errc::device_failure);
}

TEST_CASE("a wait for a block that never comes ends at its deadline", "[actors][board]") {
  ticket_board board{1};

  const auto taken = board.wait_for(wanted, 0, 1ms);

  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == errc::deadline_exceeded);
}

TEST_CASE("the first failure stays", "[actors][board]") {
  ticket_board board{1};

  board.fail({errc::device_failure, "first"});
  board.fail({errc::internal, "second"});

  CHECK(board.first_failure().detail == "first");
}

TEST_CASE("nobody enters a board that has failed, and who is inside can be waited for",
          "[actors][board]") {
  ticket_board board{1};
  REQUIRE(board.enter());

  board.fail({errc::transfer_aborted, "stopping"});

  CHECK_FALSE(board.enter());
  CHECK(board.entered());
  CHECK_FALSE(board.wait_left(1ms));
  std::thread leaving{[&] { board.leave(); }};
  CHECK(board.wait_left(10min));
  leaving.join();
}

TEST_CASE("the model thread is held off for a while, unless it is inside", "[actors][board]") {
  ticket_board board(1);
  REQUIRE(board.enter());
  CHECK_FALSE(board.hold_off({errc::busy, "wait"}));
  CHECK(board.enter());
  board.leave();
  board.leave();

  REQUIRE(board.hold_off({errc::busy, "wait"}));
  CHECK_FALSE(board.enter());
  CHECK(board.first_failure().detail == "wait");
  CHECK_FALSE(board.failed());
  board.admit();

  CHECK(board.enter());
}

TEST_CASE("a board that failed while it held the model off admits nobody", "[actors][board]") {
  ticket_board board(1);
  REQUIRE(board.hold_off({errc::busy, "wait"}));

  board.fail({errc::device_failure, "broken"});
  board.admit();

  CHECK_FALSE(board.enter());
  CHECK(board.first_failure().detail == "broken");
}

} // namespace
} // namespace ferry
