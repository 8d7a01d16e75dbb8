// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/nccl_communicator.hpp>

#include "contract/communicator_rig.hpp"
#include "contract/device_rig.hpp"
#include "support/catch.hpp"
#include "support/gpu_ranks.hpp"

#include <memory>
#include <utility>

namespace ferry::test {

TEST_CASE("one rank gathers its own shard through NCCL", "[gpu][nccl]") {
  auto joined = join_on_gpus({0}, std::chrono::minutes(1));
  REQUIRE(joined.ends.front());
  connected_ranks group;
  group.devices.push_back(std::move(joined.gpus.front()));
  group.ends.push_back(std::move(*joined.ends.front()));
  auto own = at_work(group, 0, 5 << 20);

  own.play(0);
  own.play(1);
  own.finish();

  CHECK(own.right(0));
  CHECK(own.right(1));
  CHECK_FALSE(group.ends.front()->asynchronous_failure());
}

TEST_CASE("a rank that is aborted refuses collectives, is closed, and its GPU goes on",
          "[gpu][nccl]") {
  auto joined = join_on_gpus({0}, std::chrono::minutes(1));
  REQUIRE(joined.ends.front());
  connected_ranks group;
  group.devices.push_back(std::move(joined.gpus.front()));
  group.ends.push_back(std::move(*joined.ends.front()));
  auto own = at_work(group, 0, 4096);
  own.play(0);
  own.finish();

  group.ends.front()->abort({.code = errc::io_failure, .detail = "the disk is full"});

  CHECK(group.ends.front()->asynchronous_failure()->detail == "the disk is full");
  CHECK_THROWS_WITH(own.gather(1),
                    Catch::Contains("transfer_aborted") && Catch::Contains("the disk is full"));
  group.ends.clear();
  auto& gpu = *group.devices.front();
  const auto slot = on_device(gpu);
  const auto weights = pinned(gpu, 7);
  const auto seen = pinned(gpu, 0);
  own.queue().copy(upload(slot, weights));
  own.queue().copy(download(seen, slot));
  own.queue().synchronize(contract_edge);
  CHECK(own.right(0));
  CHECK(holds(gpu, seen, 7));
}

TEST_CASE("two ranks on one GPU are both refused before NCCL is asked", "[gpu][nccl]") {
  const auto joined = join_on_gpus({0, 0}, std::chrono::minutes(1));

  for (const auto& end : joined.ends) {
    REQUIRE_FALSE(end);
    CHECK(end.error().code == errc::unsupported);
    CHECK_THAT(end.error().detail, Catch::Contains("rank 0 and rank 1 are both on GPU"));
  }
}

} // namespace ferry::test
