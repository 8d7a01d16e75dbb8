// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// The contract of `communicator` as test cases. They run for every type that
// FERRY_COMMUNICATOR_SUBJECTS lists, which whoever includes this file defines before. A subject
// connects ranks with `static ferry::test::connected_ranks open(int size, ferry::nanoseconds
// patience)`. One that cannot connect any number of ranks has a `static bool skipped(int size)`,
// which skips the running test if there are too few devices for so many.

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>

#include "contract/communicator_rig.hpp"
#include "contract/device_rig.hpp"
#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <vector>

namespace ferry::test {

using Catch::Contains;

/// Longer than any test takes: nobody is missed before.
inline constexpr nanoseconds endless = std::chrono::minutes(5);
/// Long enough for ranks that come, short enough to wait for those that do not.
inline constexpr nanoseconds brief = std::chrono::milliseconds(200);

template <class Subject>
bool left_out(int size) {
  if constexpr (requires { Subject::skipped(size); })
    return Subject::skipped(size);
  else
    return false;
}

inline const failure out_of_disk{.code = errc::io_failure, .detail = "the disk is full"};

// Bytes

TEMPLATE_TEST_CASE("an all-gather brings every rank the shards of all in the order of the ranks",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  const auto size = GENERATE(1, 2, 3, 4);
  const auto bytes =
      GENERATE(std::size_t{1}, std::size_t{239}, std::size_t{1231}, (std::size_t{5} << 19) + 17);
  CAPTURE(size, bytes);
  if (left_out<TestType>(size))
    return;
  const auto group = TestType::open(size, endless);
  std::vector<std::atomic<bool>> right(static_cast<std::size_t>(size));

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, bytes);
    own.play(0);
    own.finish();
    right[static_cast<std::size_t>(rank)] = own.right(0);
  });

  CHECK(std::ranges::all_of(right, [](const auto& each) { return each.load(); }));
  CHECK_FALSE(group.ends.front()->asynchronous_failure());
}

TEMPLATE_TEST_CASE("ranks know their number and how many they are", "[contract][collective]",
                   FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(3))
    return;
  const auto group = TestType::open(3, endless);

  CHECK(group.ends[0]->rank() == 0);
  CHECK(group.ends[2]->rank() == 2);
  CHECK(group.ends[1]->size() == 3);
}

TEMPLATE_TEST_CASE("a collective is ordered with what its stream does before and after it",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  constexpr std::uint32_t rounds = 12;
  if (left_out<TestType>(3))
    return;
  const auto group = TestType::open(3, endless);
  std::atomic<int> wrong = 0;

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 4096);
    for (std::uint32_t round = 0; round < rounds; ++round)
      own.play(round);
    own.finish();
    for (std::uint32_t round = 0; round < rounds; ++round)
      wrong += own.right(round) ? 0 : 1;
  });

  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("a stream that waits for a record behind a collective sees its output",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, endless);
  std::array<std::atomic<bool>, 2> right{};

  on_all_ranks(group, [&](int rank) {
    auto& owner = *group.devices[static_cast<std::size_t>(rank)];
    auto own = at_work(group, rank, contract_block / 2);
    const auto seen = pinned(owner, 0);
    stream compute(owner, "compute");
    event gathered(owner);

    own.play(0);
    own.queue().record(gathered);
    compute.wait(gathered, contract_edge);
    compute.copy(download(seen, own.output()));
    compute.synchronize(contract_edge);
    owner.host_read(seen.bytes(), {.what = "check"});
    auto expected = shard_of(0, 0, contract_block / 2);
    const auto other = shard_of(1, 0, contract_block / 2);
    expected.insert(expected.end(), other.begin(), other.end());
    right[static_cast<std::size_t>(rank)] = std::ranges::equal(expected, seen.bytes());
    own.finish();
  });

  CHECK(right[0]);
  CHECK(right[1]);
}

TEMPLATE_TEST_CASE("a collective of no bytes still brings the ranks together",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, brief);

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 0);
    own.gather(0);
    own.finish();
  });

  CHECK_FALSE(group.ends[0]->asynchronous_failure());
}

TEMPLATE_TEST_CASE("a rank that arrives late is waited for", "[contract][collective]",
                   FERRY_COMMUNICATOR_SUBJECTS) {
  const auto late = GENERATE(0, 1, 2);
  CAPTURE(late);
  if (left_out<TestType>(3))
    return;
  const auto group = TestType::open(3, endless);
  std::latch others_are_there{2};
  std::atomic<int> wrong = 0;

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 1000);
    if (rank == late)
      others_are_there.wait();
    own.play(0);
    if (rank != late)
      others_are_there.count_down();
    own.finish();
    wrong += own.right(0) ? 0 : 1;
  });

  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("an output that does not take the shards of all ranks is refused",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(1))
    return;
  const auto group = TestType::open(1, endless);
  auto own = at_work(group, 0, 64);

  CHECK_THROWS_WITH(group.ends[0]->all_gather(own.queue().id(), own.output().bytes(),
                                              const_bytes(own.output().bytes()).first(63),
                                              {.what = "gather"}),
                    Contains("has 64 bytes; expected 1 shards of 63"));

  own.play(0);
  own.finish();
  CHECK(own.right(0));
}

// Failure

TEMPLATE_TEST_CASE("an abort of any rank ends the wait of all with its cause",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  const auto aborting = GENERATE(0, 1, 2);
  CAPTURE(aborting);
  if (left_out<TestType>(3))
    return;
  const auto group = TestType::open(3, endless);
  std::latch others_are_there{2};

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 64);
    if (rank == aborting) {
      others_are_there.wait();
      group.ends[static_cast<std::size_t>(rank)]->abort(out_of_disk);
    } else {
      own.gather(0);
      others_are_there.count_down();
    }
    own.finish();
  });

  for (const auto& end : group.ends) {
    const auto cause = end->asynchronous_failure();
    REQUIRE(cause);
    CHECK(cause->code == errc::io_failure);
    CHECK(cause->detail == "the disk is full");
    CHECK(cause->rank == aborting);
  }
}

TEMPLATE_TEST_CASE("a group that has failed refuses collectives with the first cause",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, endless);
  auto own = at_work(group, 0, 64);

  group.ends[1]->abort(out_of_disk);
  group.ends[0]->abort({.code = errc::internal, .detail = "too late"});

  CHECK_THROWS_WITH(own.gather(0), Contains("transfer_aborted") && Contains("the disk is full") &&
                                       Contains("rank 1"));
  CHECK_THROWS_AS(own.gather(0), device_error);
  CHECK(group.ends[0]->asynchronous_failure()->detail == "the disk is full");
}

TEMPLATE_TEST_CASE("a cause keeps the block, rank and vendor code it comes with",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(3))
    return;
  const auto group = TestType::open(3, endless);
  const auto cause = failure{.code = errc::out_of_device_memory,
                             .detail = "no room",
                             .block = "dit.blocks.7",
                             .rank = 2,
                             .vendor_code = -3};

  group.ends[0]->abort(cause);

  CHECK(group.ends[1]->asynchronous_failure() == cause);
}

TEMPLATE_TEST_CASE("a rank may be aborted by another thread than the one that waits",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, endless);
  std::latch enqueued{1};
  auto waiting = std::async(std::launch::async, [&] {
    auto own = at_work(group, 0, 64);
    own.gather(0);
    enqueued.count_down();
    own.finish();
  });

  enqueued.wait();
  group.ends[0]->abort(out_of_disk);
  group.ends[0]->abort(out_of_disk);
  waiting.get();

  CHECK(group.ends[1]->asynchronous_failure()->rank == 0);
}

TEMPLATE_TEST_CASE("a stream goes on after a collective that has failed", "[contract][collective]",
                   FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, endless);
  auto& owner = *group.devices[0];
  auto own = at_work(group, 0, 64);
  const auto slot = on_device(owner);
  const auto weights = pinned(owner, 7);
  const auto seen = pinned(owner, 0);
  own.gather(0);

  group.ends[1]->abort(out_of_disk);
  own.queue().copy(upload(slot, weights));
  own.queue().copy(download(seen, slot));
  own.queue().synchronize(contract_edge);

  CHECK(holds(owner, seen, 7));
}

TEMPLATE_TEST_CASE("ranks that never arrive are named once the others' patience is over",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(4))
    return;
  const auto group = TestType::open(4, brief);

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 64);
    if (rank == 0 || rank == 2)
      own.gather(0);
    own.finish();
  });

  for (const auto& end : group.ends) {
    const auto cause = end->asynchronous_failure();
    REQUIRE(cause);
    CHECK(cause->code == errc::deadline_exceeded);
    CHECK(cause->detail == "rank 1, rank 3 did not arrive at collective 1 in time");
    CHECK(cause->rank == 1);
  }
}

TEMPLATE_TEST_CASE("ranks that issue other collectives at one place fail and both are named",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  const auto group = TestType::open(2, endless);
  std::latch first_is_there{1};

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 64);
    if (rank == 1)
      first_is_there.wait();
    try {
      own.gather(rank == 0 ? 16 : 17);
    } catch (const device_error&) {
      // The call itself may be refused. What it was is judged below.
    }
    if (rank == 0)
      first_is_there.count_down();
    own.finish();
  });

  const auto cause = group.ends[0]->asynchronous_failure();
  REQUIRE(cause);
  CHECK(cause->code == errc::invalid_argument);
  CHECK(cause->rank == 1);
  CHECK_THAT(cause->detail,
             Contains("collective 1 is 'gather' of block 17 with shards of 64 bytes on rank 1 and "
                      "'gather' of block 16 with shards of 64 bytes on rank 0"));
}

// Ends

TEMPLATE_TEST_CASE("a rank that leaves while others wait for it is named", "[contract][collective]",
                   FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(3))
    return;
  auto group = TestType::open(3, endless);
  std::latch others_are_there{2};

  on_all_ranks(group, [&](int rank) {
    if (rank == 1) {
      others_are_there.wait();
      group.ends[1].reset();
      return;
    }
    auto own = at_work(group, rank, 64);
    own.gather(0);
    others_are_there.count_down();
    own.finish();
  });

  const auto cause = group.ends[0]->asynchronous_failure();
  REQUIRE(cause);
  CHECK(cause->code == errc::transfer_aborted);
  CHECK(cause->detail == "rank 1 left before collective 1");
  CHECK(group.ends[2]->asynchronous_failure() == cause);
}

TEMPLATE_TEST_CASE("a rank that leaves after its last collective harms nobody",
                   "[contract][collective]", FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  auto group = TestType::open(2, endless);
  std::latch last_is_enqueued{1};
  bool right = false;

  on_all_ranks(group, [&](int rank) {
    auto own = at_work(group, rank, 64);
    if (rank == 0)
      last_is_enqueued.wait();
    own.play(0);
    if (rank == 1) {
      group.ends[1].reset();
      last_is_enqueued.count_down();
    }
    own.finish();
    if (rank == 0)
      right = own.right(0);
  });

  CHECK(right);
  CHECK_FALSE(group.ends[0]->asynchronous_failure());
}

TEMPLATE_TEST_CASE("all ends may go while their streams still wait", "[contract][collective]",
                   FERRY_COMMUNICATOR_SUBJECTS) {
  if (left_out<TestType>(2))
    return;
  auto group = TestType::open(2, endless);
  auto own = at_work(group, 0, 64);
  own.gather(0);

  group.ends.clear();
  own.finish();

  CHECK_NOTHROW(own.queue().synchronize(contract_edge));
}

} // namespace ferry::test
