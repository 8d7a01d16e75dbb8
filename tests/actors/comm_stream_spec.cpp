// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/offload/gather_manifest.hpp>
#include <ferry/platform/arena.hpp>
#include <ferry/platform/sim_device.hpp>

#include "streaming.hpp"
#include "support/actor_world.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ferry {
namespace {

using test::actor_world;
using test::byte_blocks;

/// One end of two that only remembers which blocks it was to gather, and why it was aborted.
class remembering_communicator final : public communicator {
public:
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 2; }
  void all_gather(stream_id, mutable_bytes, const_bytes, operation_tag tag) override {
    if (failing)
      throw ferry_error{{errc::transfer_aborted, "the group has failed"}};
    gathered.push_back(tag.block);
  }
  void abort(const failure& cause) noexcept override { aborts.push_back(cause); }
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override {
    return std::nullopt;
  }

  std::vector<std::uint32_t> gathered;
  std::vector<failure> aborts;
  bool failing = false;
};

/// A plan of three blocks that two ranks gather, each in one piece.
transfer_plan gathered_by_two(transfer_plan plan) {
  for (const auto& each : plan.blocks) {
    const auto& manifest = plan.gathers.emplace_back(
        plan_gather(each.path, each.layout.bytes, 2, std::nullopt).value());
    plan.slot_bytes = std::max(plan.slot_bytes, manifest->gathered_bytes());
    plan.input_bytes = std::max(plan.input_bytes, manifest->shard_bytes());
  }
  return plan;
}

/// A communication worker and what it is given: as many slots as blocks.
struct comm_rig {
  comm_rig() {
    copies = spawn_copy_stream_worker(world.system(), gpu, supervisor);
    subject =
        spawn_comm_stream_worker(world.system(), threading::pooled, gpu, ranks, copies, supervisor);
    std::vector<mutable_bytes> slots(plan.blocks.size());
    for (auto& each : slots)
      each = memory.carve(plan.slot_bytes);
    const std::vector<mutable_bytes> inputs{memory.carve(plan.input_bytes),
                                            memory.carve(plan.input_bytes)};
    for (std::size_t i = 0; i != plan.blocks.size(); ++i)
      through->add_shard(plan.blocks[i].id, {.manifest = &*plan.gathers[i]});
    through->open(slots, inputs);
  }
  ~comm_rig() {
    static_cast<void>(world.ask<answered>(subject, release_child{}));
    static_cast<void>(world.ask<answered>(copies, release_child{}));
    kill(supervisor);
    gpu->run();
  }

  [[nodiscard]] result<answered> open() {
    return world.ask<answered>(subject, open_gathers{through, gpu->stamp()});
  }
  [[nodiscard]] bool serve() {
    return world.ask<void>(subject, start_child{7}).has_value() && open().has_value();
  }
  /// Asks for the `sequence`th piece, which is that block.
  void gather(std::uint32_t sequence) {
    through->board().request(
        {.block = block_id{sequence}, .slot = slot_id{sequence}, .generation = sequence + 1});
    post(subject, gather_piece{.block = block_id{sequence},
                               .slot = slot_id{sequence},
                               .generation = sequence + 1,
                               .sequence = sequence,
                               .stamp = gpu->stamp()});
    world.dispatch_messages();
  }
  [[nodiscard]] bool is_published(std::uint32_t block) {
    return through->board().take(block_id{block}, 0).has_value();
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  std::shared_ptr<remembering_communicator> ranks = std::make_shared<remembering_communicator>();
  byte_blocks blocks{{3}, 0};
  transfer_plan plan = gathered_by_two(blocks.weights()->plan);
  arena memory{*gpu, plan.device_bytes(plan.blocks.size())};
  std::shared_ptr<streaming> through =
      std::make_shared<streaming>(*gpu, plan, plan.blocks.size(), plan.blocks.size());
  test::fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<test::fake_supervisor>(reports);
  copy_stream_actor copies;
  comm_stream_actor subject;
};

using gathered = std::vector<std::uint32_t>;

TEST_CASE("pieces that come in any order are gathered in that of their sequence",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());

  rig.gather(2);
  CHECK(rig.ranks->gathered.empty());
  rig.gather(0);
  CHECK(rig.ranks->gathered == gathered{0});
  rig.gather(1);
  CHECK(rig.ranks->gathered == gathered{0, 1, 2});
}

TEST_CASE("a piece that comes before its turn is neither gathered nor published",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());

  rig.gather(1);

  CHECK(rig.ranks->gathered.empty());
  CHECK_FALSE(rig.is_published(1));
  rig.gather(0);
  CHECK(rig.is_published(0));
  CHECK(rig.is_published(1));
}

TEST_CASE("what came before its turn is forgotten with its backend", "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());
  rig.gather(1);
  REQUIRE(rig.world.ask<answered>(rig.subject, close_gathers{}));
  REQUIRE(rig.open());

  rig.gather(0);

  CHECK(rig.ranks->gathered == gathered{0});
}

TEST_CASE("a second backend is refused until the first one's gathers are closed",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());

  CHECK(rig.open().error().code == errc::busy);
  CHECK(rig.world.ask<answered>(rig.subject, close_gathers{}));
  CHECK(rig.open());
}

TEST_CASE("without an open backend nothing is gathered", "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.world.ask<void>(rig.subject, start_child{7}));

  rig.gather(0);

  CHECK(rig.ranks->gathered.empty());
  CHECK(rig.world.ask<answered>(rig.subject, drain_gathers{}).error().code == errc::not_enabled);
}

TEST_CASE("once its permit is withdrawn a communication worker gathers nothing",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());
  rig.through->exchanging()->withdraw({"test"});

  rig.gather(0);

  CHECK(rig.ranks->gathered.empty());
}

TEST_CASE("a communication worker that ends before its time aborts the group",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());

  kill(rig.subject);
  rig.world.dispatch_messages();

  REQUIRE(rig.ranks->aborts.size() == 1);
  CHECK(rig.ranks->aborts[0].code == errc::transfer_aborted);
  CHECK_THAT(rig.ranks->aborts[0].detail, Catch::Contains("ended by itself"));
}

TEST_CASE("a communication worker that is released aborts nothing", "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());

  REQUIRE(rig.world.ask<answered>(rig.subject, release_child{}));

  CHECK(rig.ranks->aborts.empty());
}

TEST_CASE("a drained communication worker gathers nothing, and refuses to open with the cause",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());
  rig.gather(1);
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::transfer_aborted, "first"}}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}}));

  rig.gather(0);

  CHECK(rig.ranks->gathered.empty());
  CHECK(rig.world.ask<answered>(rig.subject, drain_gathers{.stamp = rig.gpu->stamp()}));
  CHECK(rig.world.ask<answered>(rig.subject, close_gathers{}));
  CHECK(rig.open().error().detail == "first");
}

TEST_CASE("a drain aborts the group where it is for a failure, and only there",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());
  const auto failed = GENERATE(true, false);

  REQUIRE(rig.world.ask<void>(
      rig.subject, drain_child{.cause = {errc::device_failure, "lost"}, .failed = failed}));

  CHECK(rig.ranks->aborts.size() == (failed ? 1 : 0));
  for (const auto& each : rig.ranks->aborts)
    CHECK(each.detail == "lost");
}

TEST_CASE("a gather that fails reaches the board, the group and the supervisor with its block",
          "[actors][gathers]") {
  comm_rig rig;
  REQUIRE(rig.serve());
  rig.gather(1);
  rig.ranks->failing = true;

  rig.gather(0);

  CHECK(rig.ranks->gathered.empty());
  CHECK(rig.through->board().first_failure().block == "blocks.0");
  REQUIRE(rig.ranks->aborts.size() == 1);
  CHECK(rig.ranks->aborts[0].block == "blocks.0");
  REQUIRE(rig.reports->size() == 1);
  CHECK(rig.reports->front().name == "comm_stream_worker");
  CHECK(rig.reports->front().generation == 7);
}

} // namespace
} // namespace ferry
