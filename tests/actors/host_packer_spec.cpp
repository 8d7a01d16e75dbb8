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
#include "support/life_plans.hpp"
#include "support/offloader_rig.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::actor_world;
using test::byte_blocks;

constexpr std::size_t buffer_bytes = 512; // A block takes two or three pieces.

/// A packer, the copy worker that it packs for, and four blocks that are not pinned.
struct packing_rig {
  packing_rig() {
    for (std::size_t i = 0; i != blocks.size(); ++i)
      through->add_sources(plan.blocks[i].id, blocks.weights()->blocks[i]->segments());
    const std::vector<mutable_bytes> regions{memory.carve(plan.slot_bytes),
                                             memory.carve(plan.slot_bytes)};
    through->open(regions, {});
    through->add_staging(buffer_bytes);
    REQUIRE(world.ask<void>(subject, start_child{7}));
    REQUIRE(world.ask<void>(copies, start_child{7}));
  }
  ~packing_rig() {
    static_cast<void>(world.ask<answered>(copies, release_child{}));
    static_cast<void>(world.ask<answered>(subject, release_child{}));
    kill(supervisor);
    gpu->run();
  }

  [[nodiscard]] result<answered> open() {
    return world.ask<answered>(subject, open_packing{through, gpu->stamp()});
  }
  [[nodiscard]] result<answered> open_worker() {
    return world.ask<answered>(copies, open_copies{.through = through,
                                                   .gathers = {},
                                                   .packer = subject,
                                                   .patience = 5s,
                                                   .stamp = gpu->stamp()});
  }
  [[nodiscard]] result<answered> pack(std::size_t piece = 0) {
    return world.ask<answered>(
        subject,
        pack_piece{.block = block_id{0}, .piece = piece, .turn = piece, .stamp = gpu->stamp()});
  }
  void ask_for(std::uint32_t block, std::uint32_t slot, std::uint64_t generation) {
    through->board().request(
        {.block = block_id{block}, .slot = slot_id{slot}, .generation = generation});
    post(copies, fetch_block{.block = block_id{block},
                             .slot = slot_id{slot},
                             .generation = generation,
                             .stamp = gpu->stamp()});
  }
  [[nodiscard]] bool arrived(std::uint32_t block) {
    const auto ticket = through->board().take(block_id{block}, 0);
    if (!ticket)
      return false;
    gpu->observe(through->board().known(ticket->slot));
    through->at(ticket->slot).ready.synchronize({"test"});
    const auto& layout = plan.blocks[block].layout;
    return std::ranges::equal(through->at(ticket->slot).bytes.first(layout.bytes),
                              blocks.weights()->blocks[block]->segments().front().source);
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  byte_blocks blocks{{4}, 0};
  const transfer_plan& plan = blocks.weights()->plan;
  arena memory{*gpu, plan.device_bytes(2)};
  std::shared_ptr<streaming> through = std::make_shared<streaming>(*gpu, plan, 2, 2);
  test::fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<test::fake_supervisor>(reports);
  host_packer_actor subject = spawn_host_packer(world.system(), threading::pooled, gpu);
  copy_stream_actor copies = spawn_copy_stream_worker(world.system(), gpu, supervisor);
};

TEST_CASE("a packer serves one backend, until it is closed", "[actors][host_packer]") {
  packing_rig rig;

  CHECK(rig.pack().error().code == errc::not_enabled);
  CHECK(rig.world.ask<answered>(rig.subject, drain_packing{}).error().code == errc::not_enabled);
  CHECK(rig.world.ask<answered>(rig.subject, close_packing{}));
  REQUIRE(rig.open());
  CHECK(rig.open().error().code == errc::busy);
  CHECK(rig.pack());
  CHECK(rig.world.ask<answered>(rig.subject, drain_packing{}));
  CHECK(rig.world.ask<answered>(rig.subject, close_packing{}));
  CHECK(rig.open());
}

TEST_CASE("a drain that waits for a block to be staged is answered when the backend is closed",
          "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.open_worker());
  rig.ask_for(0, 0, 5);
  REQUIRE(rig.world.dispatch_message());

  test::question<answered> drained{rig.world.system(), rig.copies, drain_copies{}};
  test::question<answered> closed{rig.world.system(), rig.copies, close_copies{}};
  rig.world.dispatch_messages();

  CHECK(closed.outcome());
  REQUIRE(drained.answered());
  CHECK(drained.outcome().error().code == errc::not_enabled);
}

TEST_CASE("a drained packer packs nothing and tells the first cause", "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::transfer_aborted, "first"}}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}}));

  CHECK(rig.pack().error().detail == "first");
  CHECK(rig.world.ask<answered>(rig.subject, drain_packing{}));
}

TEST_CASE("once its permit is withdrawn a packer touches nothing of the backend any more",
          "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.pack());
  rig.through->packing()->withdraw({"test"});
  rig.gpu->observe(rig.through->packing()->known());

  CHECK(rig.pack().error().code == errc::not_enabled);

  rig.through->close(); // Gives the buffers back: a race if the packer still had them.
  CHECK(rig.gpu->race_count() == 0);
}

TEST_CASE("a packer whose permit was withdrawn before the backend came does not open it",
          "[actors][host_packer]") {
  packing_rig rig;
  rig.through->packing()->withdraw({"test"});

  CHECK(rig.open().error().code == errc::not_enabled);
}

TEST_CASE("staged blocks come in the order asked for, each behind its pieces",
          "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.open_worker());

  rig.ask_for(2, 1, 5);
  rig.ask_for(0, 0, 6);
  rig.world.dispatch_messages();

  CHECK(rig.arrived(2));
  CHECK(rig.arrived(0));
  CHECK(rig.gpu->race_count() == 0);
  const auto timeline = rig.gpu->timeline();
  std::vector<std::uint32_t> blocks;
  for (const auto& each : timeline)
    if (each.span.kind == operation_kind::copy)
      blocks.push_back(each.span.tag.block);
  CHECK(blocks == std::vector<std::uint32_t>{2, 2, 2, 0, 0});
}

TEST_CASE("what is asked for behind a staged block waits for it, and so does a drain",
          "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.open_worker());
  rig.ask_for(2, 1, 5);
  post(rig.copies, discard_slot{slot_id{1}, {}});

  const auto drained = rig.world.ask<answered>(rig.copies, drain_copies{});
  REQUIRE(drained);
  rig.gpu->observe(drained->stamp);
  rig.through->drained().synchronize({"test"});

  CHECK(std::ranges::all_of(rig.through->at(slot_id{1}).bytes,
                            [](std::byte each) { return each == std::byte{0xff}; }));
  CHECK(rig.gpu->counters().copies == 3);
}

TEST_CASE("a packer that fails fails the fetch, with the block and its own cause",
          "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.open_worker());
  rig.gpu->inject({.call = device_call::synchronize});

  rig.ask_for(2, 1, 5);
  rig.ask_for(3, 0, 6);
  rig.world.dispatch_messages();

  CHECK(rig.through->board().first_failure().code == errc::device_failure);
  CHECK(rig.through->board().first_failure().block == "blocks.2");
  CHECK_FALSE(rig.through->board().take(block_id{3}, 0));
  REQUIRE(rig.reports->size() == 1);
  CHECK(rig.reports->front().name == "copy_stream_worker");
}

/// Carries out `steps` messages of an enable with staged blocks, then `end`, and what follows from
/// it. Returns whether there were so many.
template <class End>
bool end_after(std::size_t steps, const End& end) {
  test::offloader_rig rig;
  const auto model = test::larger_pipeline();
  auto config = test::staged(test::compact(test::both));
  config.pin_budget_bytes = staging_buffers::count * config.chunk_bytes;
  const auto enabling = rig.question<enabled>(enable_pipeline{model, config, rig.gpu->stamp()});
  auto came = true;
  for (std::size_t i = 0; i != steps && came; ++i)
    came = rig.world.dispatch_message();

  end(rig);
  rig.world.dispatch_messages();
  static_cast<void>(rig.world.ask<answered>(rig.subject, disable_backend{}));

  CAPTURE(steps);
  for (const auto& found : rig.gpu->races())
    UNSCOPED_INFO(describe(found));
  CHECK(rig.gpu->race_count() == 0);
  CHECK(rig.gpu->counters().pinned_bytes == 0);
  CHECK(rig.gpu->counters().device_bytes == 0);
  CHECK(model->hook_count() == 0);
  return came;
}

TEST_CASE("whenever the offloader ends while blocks are being staged, nothing is left behind",
          "[actors][host_packer][faults]") {
  std::size_t steps = 0;
  while (end_after(steps, [](const test::offloader_rig& rig) { kill(rig.subject); }))
    ++steps;

  CHECK(steps > 15);
}

TEST_CASE("whenever the packer ends and nobody hears what it packed last, nothing is left behind",
          "[actors][host_packer][faults]") {
  std::size_t steps = 0;
  while (end_after(steps, [](const test::offloader_rig& rig) {
    post(rig.copies, drain_child{{errc::internal, "it does not listen any more"}, true});
    kill(rig.packer);
  }))
    ++steps;

  CHECK(steps > 15);
}

TEST_CASE("a packer that ended fails the fetch at once", "[actors][host_packer]") {
  packing_rig rig;
  REQUIRE(rig.open());
  REQUIRE(rig.open_worker());
  kill(rig.subject);

  rig.ask_for(2, 1, 5);
  rig.world.dispatch_messages();

  CHECK(rig.through->board().first_failure().code == errc::transfer_aborted);
  CHECK(rig.world.ask<answered>(rig.copies, drain_copies{}));
}

} // namespace
} // namespace ferry
