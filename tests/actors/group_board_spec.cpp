// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_board.hpp"

#include "support/catch.hpp"

#include <thread>

namespace ferry {
namespace {

using namespace std::chrono_literals;

constexpr group_id first{0};
constexpr group_id second{1};

/// Two groups that exclude each other.
struct two_groups {
  void bring(group_id group) {
    REQUIRE(board.claim(group));
    board.arrived(group, {});
  }

  group_board board{{{second}, {first}}};
};

TEST_CASE("a group that is away cannot be held", "[actors][group_board]") {
  two_groups on;

  CHECK_FALSE(on.board.hold(first));
}

TEST_CASE("a group that moves can be neither held nor moved again", "[actors][group_board]") {
  two_groups on;
  REQUIRE(on.board.claim(first));

  CHECK_FALSE(on.board.hold(first));
  CHECK_FALSE(on.board.claim(first));
}

TEST_CASE("only the first hold since it came has to wait for the copies", "[actors][group_board]") {
  two_groups on;
  on.bring(first);

  CHECK(on.board.hold(first)->first);
  CHECK_FALSE(on.board.hold(first)->first);
  on.board.let_go(first, {});
  on.board.let_go(first, {});
  CHECK_FALSE(on.board.hold(first)->first);
}

TEST_CASE("a held group does not move until the outermost hold ends", "[actors][group_board]") {
  two_groups on;
  on.bring(first);
  REQUIRE(on.board.hold(first));
  REQUIRE(on.board.hold(first));
  CHECK_FALSE(on.board.held_once(first));

  on.board.let_go(first, {});
  CHECK(on.board.held_once(first));
  CHECK_FALSE(on.board.claim(first));
  CHECK(on.board.any_held() == first);

  on.board.let_go(first, {});
  CHECK(on.board.claim(first));
  CHECK_FALSE(on.board.any_held());
}

TEST_CASE("a group is not held while one that it excludes is there", "[actors][group_board]") {
  two_groups on;
  on.bring(first);
  on.bring(second);

  CHECK_FALSE(on.board.hold(first));

  REQUIRE(on.board.claim(second));
  CHECK_FALSE(on.board.hold(first));
  on.board.left(second);
  CHECK(on.board.hold(first));
}

TEST_CASE("who waits for a group has it as soon as it came", "[actors][group_board]") {
  two_groups on;
  REQUIRE(on.board.claim(first));
  std::thread stager([&] { on.board.arrived(first, {}); });

  CHECK(on.board.wait_for(first, 60s));

  stager.join();
}

TEST_CASE("who waits for a group is told why it does not come, once", "[actors][group_board]") {
  two_groups on;
  on.board.expect(first);
  on.board.refuse(first, {errc::out_of_device_memory, "no room"});

  CHECK(on.board.wait_for(first, 60s).error().detail == "no room");

  on.board.expect(first);
  CHECK(on.board.wait_for(first, 0s).error().code == errc::deadline_exceeded);
}

TEST_CASE("the first failure ends every wait", "[actors][group_board]") {
  two_groups on;
  on.board.fail({errc::transfer_aborted, "first"});
  on.board.fail({errc::internal, "second"});

  CHECK(on.board.wait_for(first, 60s).error().detail == "first");
}

TEST_CASE("a group counts as used from its first hold until it leaves", "[actors][group_board]") {
  two_groups on;
  CHECK_FALSE(on.board.was_held(first));
  on.bring(first);
  CHECK_FALSE(on.board.was_held(first));
  REQUIRE(on.board.hold(first));
  CHECK(on.board.was_held(first));
  on.board.let_go(first, {});
  CHECK(on.board.was_held(first));
  REQUIRE(on.board.claim(first));
  on.board.left(first);
  CHECK_FALSE(on.board.was_held(first));
}

} // namespace
} // namespace ferry
