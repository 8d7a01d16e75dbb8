// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/platform/sim_device.hpp>

#include "streaming.hpp"
#include "support/actor_world.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"

#include <chrono>
#include <string>

namespace ferry {
namespace {

using test::actor_world;
using test::byte_blocks;
using strings = std::vector<std::string>;

/// A copy worker that publishes at once what it is asked for, or remembers it for later.
class fake_copies final : public copy_stream_actor::base {
public:
  fake_copies(caf::actor_config& config, test::message_log log, std::shared_ptr<streaming> through)
      : copy_stream_actor::base(config), log_(std::move(log)), through_(std::move(through)) {}

  behavior_type make_behavior() override {
    return {
        [](const open_copies&) -> caf::result<answered> { return answered{}; },
        [](const reload_residents&) -> caf::result<answered> { return answered{}; },
        [this](const fetch_block& m) -> caf::result<void> {
          log_->push_back("fetch " + std::to_string(static_cast<std::uint32_t>(m.block)));
          through_->board().publish(m.slot, m.generation, m.stamp);
          return caf::unit;
        },
        [](const piece_sent&) -> caf::result<void> { return caf::unit; },
        [this](const discard_slot&) -> caf::result<void> {
          log_->push_back("discard");
          return caf::unit;
        },
        [](const drain_copies&) -> caf::result<answered> { return answered{}; },
        [](const close_copies&) -> caf::result<answered> { return answered{}; },
        [](const start_child&) -> caf::result<void> { return caf::unit; },
        [](const drain_child&) -> caf::result<void> { return caf::unit; },
        [](const release_child&) -> caf::result<answered> { return answered{}; },
    };
  }

private:
  test::message_log log_;
  std::shared_ptr<streaming> through_;
};

/// A prefetcher over two slots and a ring of four blocks, whose copies are taken down in `log`.
struct ring_rig {
  explicit ring_rig(bool gathers = false) {
    auto plan = blocks.weights()->plan;
    plan.gathers.resize(gathers ? plan.blocks.size() : 0);
    through = std::make_shared<streaming>(*gpu, plan, 2, 2);
    copies = world.system().spawn<fake_copies>(log, through);
    subject = spawn_block_prefetcher(world.system(), gpu, copies, supervisor);
    REQUIRE(world.ask<void>(subject, start_child{3}));
  }
  ~ring_rig() {
    static_cast<void>(world.ask<answered>(subject, release_child{}));
    kill(copies);
    kill(supervisor);
  }

  template <class Message>
  [[nodiscard]] result<answered> ask(Message message) {
    return world.ask<answered>(subject, std::move(message));
  }

  /// Uses a block that is on the board, and returns what that made the copy worker do.
  strings use(std::uint32_t block) {
    log->clear();
    const auto ticket = through->board().take(block_id{block}, 0);
    REQUIRE(ticket);
    through->board().give_back(ticket->slot);
    post(subject, block_released{block_id{block}, ticket->slot, ticket->generation, {}});
    world.dispatch_messages();
    return *log;
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  byte_blocks blocks{{4}, 0};
  std::shared_ptr<streaming> through;
  test::message_log log = test::make_message_log();
  test::fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<test::fake_supervisor>(reports);
  copy_stream_actor copies;
  block_prefetcher_actor subject;
};

TEST_CASE("opening brings the first blocks on their way", "[actors][prefetcher]") {
  ring_rig rig;

  CHECK(rig.ask(open_ring{rig.through, {}}));

  CHECK(*rig.log == strings{"fetch 0", "fetch 1"});
}

TEST_CASE("a prefetcher serves one backend at a time", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  CHECK(rig.ask(open_ring{rig.through, {}}).error().code == errc::busy);
}

TEST_CASE("without a backend requests are refused and closing does nothing",
          "[actors][prefetcher]") {
  ring_rig rig;

  CHECK(rig.ask(begin_request{}).error().code == errc::not_enabled);
  CHECK(rig.ask(end_request{}).error().code == errc::not_enabled);
  CHECK(rig.ask(announce_blocks{}).error().code == errc::not_enabled);
  CHECK(rig.ask(close_ring{}));
  CHECK(rig.world.ask<ring_counts>(rig.subject, query_ring{})->prefetches == 0);
}

TEST_CASE("what came too late is fetched again for the next request, unless ranks gather it",
          "[actors][prefetcher]") {
  const auto gathers = GENERATE(false, true);
  ring_rig rig{gathers};
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  rig.log->clear();
  REQUIRE_FALSE(rig.through->board().wait_for(block_id{3}, 0, std::chrono::microseconds{1}));

  CHECK(rig.ask(begin_request{}));

  CHECK(*rig.log == (gathers ? strings{} : strings{"discard", "discard", "fetch 0", "fetch 1"}));
}

TEST_CASE("a release makes the slot fetch the next block", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  CHECK(rig.use(0) == strings{"fetch 2"});
  CHECK(rig.use(1) == strings{"fetch 3"});
  CHECK(rig.use(2) == strings{"fetch 0"});
}

TEST_CASE("an emptied ring fetches nothing until it is refilled, and then what it had",
          "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  REQUIRE(rig.use(0) == strings{"fetch 2"});
  rig.log->clear();

  REQUIRE(rig.ask(empty_ring{}));
  CHECK(*rig.log == strings{"discard", "discard"});
  CHECK(rig.through->board().count().free == 2);
  rig.log->clear();
  REQUIRE(rig.ask(refill_ring{}));

  CHECK(*rig.log == strings{"fetch 1", "fetch 2"});
}

TEST_CASE("a ring is not emptied inside a request or while a block is in use",
          "[actors][prefetcher]") {
  ring_rig rig;
  CHECK(rig.ask(empty_ring{}).error().code == errc::not_enabled);
  CHECK(rig.ask(refill_ring{}).error().code == errc::not_enabled);
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  const auto ticket = rig.through->board().take(block_id{0}, 0);
  REQUIRE(ticket);
  CHECK(rig.ask(empty_ring{}).error().code == errc::busy);
  rig.through->board().give_back(ticket->slot);
  REQUIRE(rig.ask(begin_request{}));

  CHECK(rig.ask(empty_ring{}).error().code == errc::busy);
}

TEST_CASE("a demand for a block that is on its way does nothing", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  rig.log->clear();

  post(rig.subject, demand_block{block_id{1}, {}});
  rig.world.dispatch_messages();

  CHECK(rig.log->empty());
  CHECK(rig.world.ask<ring_counts>(rig.subject, query_ring{})->blocking_loads == 0);
}

TEST_CASE("a demand for another block takes a slot for it", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  rig.log->clear();

  post(rig.subject, demand_block{block_id{3}, {}});
  rig.world.dispatch_messages();

  CHECK(rig.log->front() == "fetch 3");
  CHECK(rig.through->board().take(block_id{3}, 0));
  CHECK(rig.world.ask<ring_counts>(rig.subject, query_ring{})->blocking_loads == 1);
}

TEST_CASE("requests do not nest", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  REQUIRE(rig.ask(begin_request{}));

  CHECK(rig.ask(begin_request{}).error().code == errc::busy);
}

TEST_CASE("the end of a request discards what was fetched and not used", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  REQUIRE(rig.ask(begin_request{}));
  rig.log->clear();

  CHECK(rig.ask(end_request{}));

  CHECK(*rig.log == strings{"discard", "discard"});
  CHECK(rig.through->board().count().free == 2);
}

TEST_CASE("the end of a request is refused outside one, and while a block is in use",
          "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  CHECK(rig.ask(end_request{}).error().code == errc::not_enabled);
  REQUIRE(rig.ask(begin_request{}));
  REQUIRE(rig.through->board().take(block_id{0}, 0));

  CHECK(rig.ask(end_request{}).error().code == errc::busy);
}

TEST_CASE("an explicit request after blocks that ran outside one starts from the beginning",
          "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  rig.use(0);
  rig.log->clear();

  CHECK(rig.ask(begin_request{}));

  CHECK(*rig.log == strings{"discard", "discard", "fetch 0", "fetch 1"});
}

TEST_CASE("an announced block that nobody knows is refused", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  CHECK(rig.ask(announce_blocks{{block_id{4}}, {}}).error().code == errc::not_found);
  CHECK_FALSE(rig.through->board().failed());
}

TEST_CASE("a stale release fails the board and is reported", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  post(rig.subject, block_released{block_id{0}, slot_id{0}, 99, {}});
  rig.world.dispatch_messages();

  CHECK(rig.through->board().first_failure().code == errc::stale_handle);
  REQUIRE(rig.reports->size() == 1);
  CHECK(rig.reports->front().name == "block_prefetcher");
  CHECK(rig.reports->front().generation == 3);
}

TEST_CASE("closing revokes every ticket", "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));

  CHECK(rig.ask(close_ring{}));

  CHECK(rig.through->board().count().free == 2);
}

TEST_CASE("a drained prefetcher refuses with the first cause and fetches nothing",
          "[actors][prefetcher]") {
  ring_rig rig;
  REQUIRE(rig.ask(open_ring{rig.through, {}}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}}));

  CHECK(rig.use(0).empty());
  CHECK(rig.ask(begin_request{}).error().detail == "first");
}

} // namespace
} // namespace ferry
