// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/stream.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using namespace std::chrono_literals;

constexpr std::size_t shard_size = 256;

struct rank_parts {
  rank_parts(std::shared_ptr<sim_machine> machine, int number, const sim_options& options)
      : gpu(std::move(machine), "sim:" + std::to_string(number), options),
        driver(gpu, "rank " + std::to_string(number)),
        staging(gpu, memory_kind::pinned, shard_size), shard(gpu, memory_kind::device, shard_size),
        output(gpu, memory_kind::device, 2 * shard_size), copies(gpu, "copy"), comm(gpu, "comm"),
        copied(gpu) {}

  /// Brings `value` into the shard and orders the collective after it.
  void load_shard(int value) {
    host_thread::scope acting{driver};
    gpu.host_write(staging.bytes(), {"stage"});
    std::ranges::fill(staging.bytes(), std::byte(value));
    copies.copy(
        {shard.bytes(), staging.bytes(), memory_kind::device, memory_kind::pinned, {"shard"}});
    copies.record(copied);
    comm.wait(copied, {"gather waits for the shard"});
  }
  void gather(communicator& group, std::uint32_t block) {
    host_thread::scope acting{driver};
    group.all_gather(comm.id(), output.bytes(), shard.bytes(), {"gather", block});
  }
  void finish() {
    host_thread::scope acting{driver};
    comm.synchronize({"end"});
  }
  [[nodiscard]] std::array<int, 2> seen() const {
    return {std::to_integer<int>(output.bytes().front()),
            std::to_integer<int>(output.bytes().back())};
  }

  sim_device gpu;
  host_thread driver;
  memory_block staging;
  memory_block shard;
  memory_block output;
  stream copies;
  stream comm;
  event copied;
};

/// Two ranks that a test plays on one thread: nobody else will come.
struct two_ranks {
  explicit two_ranks(nanoseconds patience = 0ns, sim_options options = {})
      : machine(make_sim_machine(options.seed)), first(machine, 0, options),
        second(machine, 1, options),
        ends(make_sim_communicators(std::array{&first.gpu, &second.gpu}, patience)) {}

  std::shared_ptr<sim_machine> machine;
  rank_parts first;
  rank_parts second;
  std::vector<std::unique_ptr<communicator>> ends;
};

TEST_CASE("an all-gather brings the shards of all ranks in their order", "[sim][collective]") {
  two_ranks ranks;
  ranks.first.load_shard(1);
  ranks.first.gather(*ranks.ends[0], 5);
  ranks.second.load_shard(2);
  ranks.second.gather(*ranks.ends[1], 5);

  ranks.first.finish();
  CHECK(ranks.first.seen() == std::array{1, 2});
  CHECK(ranks.second.seen() == std::array{0xFF, 0xFF});
  ranks.second.finish();
  CHECK(ranks.second.seen() == std::array{1, 2});
  CHECK(ranks.first.gpu.races().empty());
  CHECK(ranks.ends[0]->size() == 2);
  CHECK(ranks.ends[1]->rank() == 1);
}

TEST_CASE("ranks may enqueue any number of gathers before somebody waits for one",
          "[sim][collective]") {
  constexpr int gathers = 1100; // Times are set now and then, whether or not somebody asks.
  two_ranks ranks;

  for (auto* rank : {&ranks.first, &ranks.second}) {
    rank->load_shard(rank == &ranks.first ? 1 : 2);
    for (int i = 0; i != gathers; ++i)
      rank->gather(*ranks.ends[rank == &ranks.first ? 0 : 1], 5);
  }
  ranks.second.finish();

  CHECK(ranks.second.seen() == std::array{1, 2});
}

TEST_CASE("an all-gather that does not wait for its shard is a race and brings poison",
          "[sim][collective]") {
  two_ranks ranks;
  ranks.first.load_shard(1);
  ranks.first.gather(*ranks.ends[0], 5);
  ranks.second.gpu.forget("gather waits for the shard");
  ranks.second.load_shard(2);
  ranks.second.gather(*ranks.ends[1], 5);

  ranks.first.finish();

  CHECK(ranks.first.seen() == std::array{1, 0xFF});
  REQUIRE(ranks.first.gpu.races().size() == 1);
  CHECK(ranks.first.gpu.races().front().second.kind == "all-gather");
  ranks.second.finish();
  host_thread::scope acting{ranks.second.driver};
  ranks.second.copies.synchronize({"end"});
}

TEST_CASE("a collective starts when the last rank arrives and ends for all at once",
          "[sim][collective]") {
  auto options = sim_options{};
  options.gather_bandwidth = 1e9;
  options.gather_latency = 1us;
  two_ranks ranks{0ns, options};
  {
    host_thread::scope acting{ranks.second.driver};
    ranks.second.gpu.spend(1ms);
  }
  ranks.first.gather(*ranks.ends[0], 5);
  ranks.second.gather(*ranks.ends[1], 5);
  ranks.first.finish();

  auto entry = ranks.first.gpu.timeline().back();

  CHECK(entry.span.kind == operation_kind::gather);
  CHECK(entry.span.bytes == shard_size);
  CHECK(entry.span.start == 1002us);
  CHECK(entry.span.end == 1002us + 1us + 256ns);
  CHECK(ranks.second.gpu.timeline().back().span.end == entry.span.end);
}

TEST_CASE("a collective over the link queues behind the copies there", "[sim][collective]") {
  auto options = sim_options{};
  options.gather_over_link = true;
  options.h2d_bandwidth = 1e6;
  two_ranks ranks{0ns, options};
  {
    host_thread::scope acting{ranks.first.driver};
    ranks.first.copies.copy({ranks.first.shard.bytes().first(100),
                             ranks.first.staging.bytes().first(100),
                             memory_kind::device,
                             memory_kind::pinned,
                             {}});
    ranks.first.copies.record(ranks.first.copied);
  }
  {
    host_thread::scope acting{ranks.first.driver};
    ranks.ends[0]->all_gather(ranks.first.comm.id(), {}, {}, {"gather"});
  }
  {
    host_thread::scope acting{ranks.second.driver};
    ranks.ends[1]->all_gather(ranks.second.comm.id(), {}, {}, {"gather"});
  }
  ranks.first.finish();

  CHECK(ranks.first.gpu.timeline().back().span.start == 102us);
}

TEST_CASE("what one rank did before a collective is known to the other after it",
          "[sim][collective]") {
  two_ranks ranks;
  auto second_arrives = GENERATE(false, true);
  std::array<std::byte, shard_size> shared{};
  {
    host_thread::scope acting{ranks.second.driver};
    ranks.second.gpu.host_write(shared, {"prepare"});
  }
  ranks.first.gather(*ranks.ends[0], 5);
  {
    host_thread::scope acting{ranks.first.driver};
    ranks.first.comm.copy(
        {ranks.first.shard.bytes(), shared, memory_kind::device, memory_kind::pageable, {"use"}});
  }

  if (second_arrives)
    ranks.second.gather(*ranks.ends[1], 5);
  else
    ranks.ends[1].reset();

  CHECK(ranks.first.gpu.races().size() == (second_arrives ? 0U : 1U));
}

TEST_CASE("a collective in another order is an error that names both", "[sim][collective]") {
  two_ranks ranks;
  ranks.first.gather(*ranks.ends[0], 5);

  CHECK_THROWS_WITH(ranks.second.gather(*ranks.ends[1], 6),
                    Contains("collective 1 is 'gather' of block 6 with shards of 256 bytes on rank "
                             "1 and 'gather' of block 5 with shards of 256 bytes on rank 0"));
  REQUIRE(ranks.ends[0]->asynchronous_failure());
  CHECK(ranks.ends[0]->asynchronous_failure()->rank == 1);
  CHECK(ranks.ends[1]->asynchronous_failure() == ranks.ends[0]->asynchronous_failure());
  CHECK_THROWS_WITH(ranks.first.gather(*ranks.ends[0], 6), Contains("transfer_aborted"));
}

TEST_CASE("a rank that never arrives ends in a deadline that names it", "[sim][collective]") {
  two_ranks ranks;
  ranks.first.gather(*ranks.ends[0], 5);

  CHECK_THROWS_WITH(ranks.first.finish(), Contains("deadline_exceeded") &&
                                              Contains("rank 1 did not arrive at collective 1"));
  REQUIRE(ranks.ends[1]->asynchronous_failure());
  CHECK(ranks.ends[1]->asynchronous_failure()->rank == 1);
}

TEST_CASE("a rank that an injected fault keeps away never arrives", "[sim][collective]") {
  two_ranks ranks;
  ranks.second.gpu.inject({.call = device_call::gather, .effect = fault_effect::absence});
  ranks.first.gather(*ranks.ends[0], 5);
  ranks.second.gather(*ranks.ends[1], 5);
  ranks.second.gather(*ranks.ends[1], 6);

  CHECK_THROWS_WITH(ranks.first.finish(), Contains("rank 1 did not arrive at collective 1"));
}

TEST_CASE("a rank that an injected fault kills in a collective is named to the others",
          "[sim][collective]") {
  two_ranks ranks;
  ranks.second.gpu.inject({.call = device_call::gather, .effect = fault_effect::death});
  ranks.first.load_shard(1);
  ranks.first.gather(*ranks.ends[0], 5);

  CHECK_THROWS_WITH(ranks.second.gather(*ranks.ends[1], 5),
                    Contains("rank 1 died in collective 1"));
  ranks.first.finish();

  CHECK(ranks.first.seen() == std::array{0xFF, 0xFF});
  REQUIRE(ranks.ends[0]->asynchronous_failure());
  CHECK(ranks.ends[0]->asynchronous_failure()->rank == 1);
  CHECK_THROWS_WITH(ranks.second.finish(), Contains("device_poisoned"));
}

TEST_CASE("a rank that dies before a collective is named to the others", "[sim][collective]") {
  two_ranks ranks;
  ranks.first.load_shard(1);
  ranks.first.gather(*ranks.ends[0], 5);

  ranks.ends[1].reset();
  ranks.first.finish();

  CHECK(ranks.first.seen() == std::array{0xFF, 0xFF});
  REQUIRE(ranks.ends[0]->asynchronous_failure());
  CHECK(ranks.ends[0]->asynchronous_failure()->detail == "rank 1 left before collective 1");
  CHECK_THROWS_WITH(ranks.first.gather(*ranks.ends[0], 6), Contains("rank 1 left before"));
}

TEST_CASE("a rank that dies after a collective harms nobody who needs it no more",
          "[sim][collective]") {
  two_ranks ranks;
  ranks.first.load_shard(1);
  ranks.second.load_shard(2);
  ranks.first.gather(*ranks.ends[0], 5);
  ranks.second.gather(*ranks.ends[1], 5);

  ranks.ends[1].reset();
  ranks.first.finish();

  CHECK(ranks.first.seen() == std::array{1, 2});
  CHECK_FALSE(ranks.ends[0]->asynchronous_failure());
}

TEST_CASE("an abort ends what waits and refuses what comes", "[sim][collective]") {
  two_ranks ranks;
  ranks.first.gather(*ranks.ends[0], 5);

  ranks.ends[1]->abort({.code = errc::io_failure, .detail = "the checkpoint is gone"});
  ranks.first.finish();

  CHECK_THROWS_WITH(ranks.second.gather(*ranks.ends[1], 5), Contains("transfer_aborted"));
}

TEST_CASE("a collective that fails on one rank leaves the other waiting", "[sim][collective]") {
  two_ranks ranks;
  ranks.second.gpu.inject({.call = device_call::gather, .effect = fault_effect::sticky});
  ranks.first.gather(*ranks.ends[0], 5);

  CHECK_THROWS_WITH(ranks.second.gather(*ranks.ends[1], 5), Contains("device_failure"));
  CHECK_THROWS_WITH(ranks.first.finish(), Contains("rank 1 did not arrive"));
}

std::vector<std::string> times_of_ranks_on_threads(unsigned dawdling_rank) {
  auto options = sim_options{};
  options.jitter = 0.4;
  options.seed = 3;
  two_ranks ranks{60s, options};
  auto play = [&](rank_parts& own, communicator& group, bool dawdles) {
    for (std::uint32_t block = 0; block < 20; ++block) {
      for (int i = 0; dawdles && i < 50; ++i)
        std::this_thread::yield();
      own.finish();
      own.load_shard(static_cast<int>(block));
      own.gather(group, block);
    }
    own.finish();
  };
  {
    auto other =
        std::thread(play, std::ref(ranks.second), std::ref(*ranks.ends[1]), dawdling_rank == 1);
    play(ranks.first, *ranks.ends[0], dawdling_rank == 0);
    other.join();
  }
  CHECK(ranks.first.gpu.races().empty());
  std::vector<std::string> lines;
  for (const auto& entry : ranks.first.gpu.timeline())
    lines.push_back(entry.stream + " " + std::to_string(entry.span.start.count()) + " " +
                    std::to_string(entry.span.end.count()));
  return lines;
}

TEST_CASE("ranks on real threads meet at the same times however late one is", "[sim][collective]") {
  CHECK(times_of_ranks_on_threads(0) == times_of_ranks_on_threads(1));
}

} // namespace
} // namespace ferry
