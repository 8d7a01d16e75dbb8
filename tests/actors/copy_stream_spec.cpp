// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/platform/arena.hpp>
#include <ferry/platform/sim_device.hpp>

#include "streaming.hpp"
#include "support/actor_world.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"

#include <algorithm>
#include <chrono>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::actor_world;
using test::byte_blocks;

/// A copy worker and what it is given: two slots, four blocks, two residents.
struct copy_rig {
  copy_rig() {
    subject = spawn_copy_stream_worker(world.system(), gpu, supervisor);
    const std::vector<mutable_bytes> regions{memory.carve(plan.slot_bytes),
                                             memory.carve(plan.slot_bytes)};
    for (std::size_t i = 0; i != blocks.size(); ++i)
      through->add_sources(plan.blocks[i].id, blocks.weights()->blocks[i]->segments());
    for (std::size_t i = 0; i != plan.residents.size(); ++i)
      through->add_resident(memory.carve(plan.residents[i].layout.bytes),
                            blocks.weights()->residents[i]->segments());
    through->open(regions, {});
  }
  ~copy_rig() {
    static_cast<void>(world.ask<answered>(subject, release_child{}));
    kill(supervisor);
    gpu->run();
  }

  [[nodiscard]] result<void> start() { return world.ask<void>(subject, start_child{7}); }
  [[nodiscard]] result<answered> open() {
    return world.ask<answered>(
        subject, open_copies{.through = through, .gathers = {}, .stamp = gpu->stamp()});
  }
  void fetch(std::uint32_t block, std::uint32_t slot, std::uint64_t generation) {
    through->board().request(
        {.block = block_id{block}, .slot = slot_id{slot}, .generation = generation});
    post(subject, fetch_block{.block = block_id{block},
                              .slot = slot_id{slot},
                              .generation = generation,
                              .stamp = gpu->stamp()});
    world.dispatch_messages();
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  byte_blocks blocks{{4}, 2};
  const transfer_plan& plan = blocks.weights()->plan;
  arena memory{*gpu, plan.device_bytes(2)};
  std::shared_ptr<streaming> through = std::make_shared<streaming>(*gpu, plan, 2, 2);
  test::fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<test::fake_supervisor>(reports);
  copy_stream_actor subject;
};

TEST_CASE("a copy worker that cannot make its stream fails to start and may be started again",
          "[actors][copies]") {
  copy_rig rig;
  rig.gpu->inject({.call = device_call::create_stream});

  CHECK(rig.start().error().code == errc::device_failure);
  CHECK(rig.start());
}

TEST_CASE("opening loads the residents and answers with their event recorded", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());

  REQUIRE(rig.open());
  rig.through->residents_ready().synchronize({"test"});

  CHECK(rig.blocks.residents_are_right(rig.through->residents().front().target.data()));
}

TEST_CASE("a second backend is refused until the first is closed", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());

  CHECK(rig.open().error().code == errc::busy);
  CHECK(rig.world.ask<answered>(rig.subject, close_copies{}));
  CHECK(rig.open());
}

TEST_CASE("closing without an open backend does nothing", "[actors][copies]") {
  copy_rig rig;

  CHECK(rig.world.ask<answered>(rig.subject, close_copies{}));
}

TEST_CASE("a fetched block is on the board, behind its copies", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());

  rig.fetch(2, 1, 5);

  const auto ticket = rig.through->board().take(block_id{2}, 0);
  REQUIRE(ticket);
  rig.through->at(ticket->slot).ready.synchronize({"test"});
  CHECK(
      std::ranges::equal(rig.through->at(ticket->slot).bytes.first(rig.plan.blocks[2].layout.bytes),
                         rig.blocks.weights()->blocks[2]->segments().front().source));
}

TEST_CASE("a fetch without an open backend does nothing", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());

  rig.fetch(2, 1, 5);

  CHECK(rig.gpu->timeline().empty());
  CHECK(rig.reports->empty());
}

TEST_CASE("once its permit is withdrawn a copy worker touches nothing of the backend any more",
          "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());
  rig.through->copying()->withdraw({"test"});
  const auto copies = rig.gpu->counters().copies;

  rig.fetch(2, 1, 5);

  CHECK(rig.gpu->counters().copies == copies);
  CHECK(rig.world.ask<answered>(rig.subject, drain_copies{}).error().code == errc::not_enabled);
}

TEST_CASE("a backend whose permit was withdrawn before it came is not opened", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  rig.through->copying()->withdraw({"test"});

  CHECK(rig.open().error().code == errc::not_enabled);
  CHECK(rig.gpu->counters().copies == 0);
}

TEST_CASE("the stream of a copy worker that was killed can still be waited for",
          "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());
  kill(rig.subject);
  rig.world.dispatch_messages();

  rig.through->copying()->withdraw({"test"});

  CHECK(rig.blocks.residents_are_right(rig.through->residents().front().target.data()));
}

TEST_CASE("a failed fetch reaches the board and the supervisor with its block, and is the last",
          "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());
  rig.gpu->inject({.call = device_call::copy});

  rig.fetch(2, 1, 5);
  rig.fetch(3, 0, 6);

  CHECK(rig.through->board().first_failure().code == errc::device_failure);
  CHECK(rig.through->board().first_failure().block == "blocks.2");
  CHECK_FALSE(rig.through->board().take(block_id{3}, 0));
  REQUIRE(rig.reports->size() == 1);
  CHECK(rig.reports->front().name == "copy_stream_worker");
  CHECK(rig.reports->front().generation == 7);
}

TEST_CASE("a drained copy worker refuses to open with the first cause, and fetches nothing",
          "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::transfer_aborted, "first"}}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}}));

  CHECK(rig.open().error().detail == "first");
}

TEST_CASE("a drain event stands for everything enqueued, on a drained worker too",
          "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());
  rig.fetch(1, 0, 5);
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::transfer_aborted, "stopping"}}));

  const auto drained = rig.world.ask<answered>(rig.subject, drain_copies{});
  REQUIRE(drained);
  rig.gpu->observe(drained->stamp);
  rig.through->drained().synchronize({"test"});

  CHECK(rig.through->at(slot_id{0}).ready.ready());
}

TEST_CASE("a discarded slot is worthless behind the copies into it", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  REQUIRE(rig.open());
  rig.fetch(1, 0, 5);

  post(rig.subject, discard_slot{slot_id{0}, {}});
  rig.world.dispatch_messages();
  rig.gpu->run();

  CHECK(std::ranges::all_of(rig.through->at(slot_id{0}).bytes,
                            [](std::byte each) { return each == std::byte{0xff}; }));
}

TEST_CASE("a released copy worker has no stream and answers nobody any more", "[actors][copies]") {
  copy_rig rig;
  REQUIRE(rig.start());
  const auto streams = rig.gpu->counters().streams;

  REQUIRE(rig.world.ask<answered>(rig.subject, release_child{}));

  CHECK(rig.gpu->counters().streams == streams - 1);
  CHECK(rig.world.ask<void>(rig.subject, start_child{8}).error().code == errc::transfer_aborted);
}

} // namespace
} // namespace ferry
