// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/offload/block_gate.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/actor_world.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"

#include <chrono>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::actor_world;
using test::byte_blocks;

queue_request queue(std::uint64_t id, causal_stamp stamp = {}) {
  return {request_id{id}, 5s, std::move(stamp)};
}

/// The real offloader, prefetcher and copy worker, moved message by message.
struct offloader_rig {
  offloader_rig() {
    REQUIRE(world.ask<void>(copies, start_child{1}));
    REQUIRE(world.ask<void>(prefetcher, start_child{1}));
    REQUIRE(world.ask<void>(stager, start_child{1}));
    REQUIRE(world.ask<void>(subject, start_child{1}));
  }
  ~offloader_rig() {
    static_cast<void>(world.ask<answered>(subject, release_child{1s}));
    static_cast<void>(world.ask<answered>(stager, release_child{1s}));
    static_cast<void>(world.ask<answered>(prefetcher, release_child{1s}));
    static_cast<void>(world.ask<answered>(copies, release_child{1s}));
    kill(subject);
    kill(supervisor);
  }

  template <class Answer, class Message>
  [[nodiscard]] test::question<Answer> question(Message message) {
    return {world.system(), subject, std::move(message)};
  }
  [[nodiscard]] result<enabled> enable() {
    return world.ask<enabled>(subject, enable_weights{blocks.weights(), gpu->stamp()});
  }
  template <class Message>
  [[nodiscard]] errc refusal(Message message) {
    const auto answer = world.ask<answered>(subject, std::move(message));
    REQUIRE_FALSE(answer);
    return answer.error().code;
  }

  actor_world world;
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  byte_blocks blocks{{4}, 1};
  test::fake_supervisor::reports reports = std::make_shared<std::vector<child_failed>>();
  supervisor_actor supervisor = world.system().spawn<test::fake_supervisor>(reports);
  host_memory_actor memory = spawn_host_memory(world.system(), {});
  copy_stream_actor copies = spawn_copy_stream_worker(world.system(), gpu, supervisor);
  block_prefetcher_actor prefetcher =
      spawn_block_prefetcher(world.system(), gpu, copies, supervisor);
  component_stager_actor stager = spawn_component_stager(world.system(), threading::pooled, gpu);
  offloader_actor subject =
      spawn_offloader(world.system(), threading::pooled, gpu, {.request_deadline = 5s}, memory,
                      copies, prefetcher, stager, supervisor);
};

TEST_CASE("an enable answers with the gate once the first blocks are on their way",
          "[actors][offloader]") {
  offloader_rig rig;

  const auto answer = rig.enable();

  REQUIRE(answer);
  CHECK(answer->placed);
  rig.gpu->observe(answer->stamp);
  CHECK(rig.blocks.run(*answer->gate, 0));
  CHECK(rig.blocks.run(*answer->gate, 1));
}

TEST_CASE("what comes while an enable is carried out is refused, except a query",
          "[actors][offloader]") {
  offloader_rig rig;
  auto enabling = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto second = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto beginning = rig.question<answered>(queue(1));
  auto disabling = rig.question<answered>(disable_backend{});
  auto asking = rig.question<offload_state>(query_offload{});

  rig.world.dispatch_messages();

  CHECK(enabling.outcome());
  CHECK(second.outcome().error().code == errc::busy);
  CHECK(beginning.outcome().error().code == errc::busy);
  CHECK(disabling.outcome().error().code == errc::busy);
  CHECK(asking.outcome());
}

TEST_CASE("a disable that comes while a request begins is refused", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  auto beginning = rig.question<answered>(queue(1));
  auto disabling = rig.question<answered>(disable_backend{});

  rig.world.dispatch_messages();

  CHECK(beginning.outcome());
  CHECK(disabling.outcome().error().code == errc::busy);
}

TEST_CASE("a request waits for the one before it", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  auto first = rig.question<answered>(queue(1));
  auto second = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();
  CHECK(first.outcome());
  CHECK_FALSE(second.answered());

  REQUIRE(rig.world.ask<answered>(rig.subject, end_request{}));

  CHECK(second.outcome());
}

TEST_CASE("a request whose patience ends is refused, and the next one has its turn",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto second = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();

  rig.world.advance_time(6s);
  rig.world.dispatch_messages();
  CHECK(second.outcome().error().code == errc::deadline_exceeded);

  REQUIRE(rig.world.ask<answered>(rig.subject, end_request{}));
  CHECK(rig.world.ask<answered>(rig.subject, queue(3)));
}

TEST_CASE("two requests with one id are not told apart, so the second is refused",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto waiting = rig.question<answered>(queue(2));

  CHECK(rig.refusal(queue(1)) == errc::invalid_argument);
  CHECK(rig.refusal(queue(2)) == errc::invalid_argument);
}

TEST_CASE("a drained offloader refuses the requests that wait", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto waiting = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();

  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));

  CHECK(waiting.outcome().error().detail == "first");
}

TEST_CASE("without a backend there is nothing to disable, begin, end or announce",
          "[actors][offloader]") {
  offloader_rig rig;

  CHECK(rig.refusal(disable_backend{}) == errc::not_enabled);
  CHECK(rig.refusal(queue(1)) == errc::not_enabled);
  CHECK(rig.refusal(end_request{}) == errc::not_enabled);
  CHECK(rig.refusal(announce_blocks{}) == errc::not_enabled);
}

TEST_CASE("a drained offloader refuses with the first cause, and still disables",
          "[actors][offloader]") {
  offloader_rig rig;
  const auto answer = rig.enable();
  REQUIRE(answer);
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}, true}));

  CHECK(rig.refusal(queue(1)) == errc::device_failure);
  CHECK_THROWS_WITH(answer->gate->acquire(block_id{0}), Catch::Contains("first"));
  CHECK(rig.world.ask<offload_state>(rig.subject, query_offload{})->first_failure->detail ==
        "first");
  CHECK(rig.world.ask<answered>(rig.subject, disable_backend{}));
  CHECK(rig.refusal(queue(1)) == errc::device_failure);
}

TEST_CASE("a release that comes while an enable is carried out takes effect behind it",
          "[actors][offloader]") {
  offloader_rig rig;
  auto enabling = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto releasing = rig.question<answered>(release_child{1s});

  rig.world.dispatch_messages();

  CHECK(enabling.outcome());
  CHECK(releasing.outcome());
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("an enable whose copy worker is gone is undone", "[actors][offloader]") {
  offloader_rig rig;
  kill(rig.copies);
  rig.world.dispatch_messages();

  const auto answer = rig.enable();

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == errc::transfer_aborted);
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("a release waits for the block in use no longer than its deadline, and names it",
          "[actors][offloader]") {
  offloader_rig rig;
  const auto answer = rig.enable();
  REQUIRE(answer);
  static_cast<void>(answer->gate->acquire(block_id{1}));

  const auto released = rig.world.ask<answered>(rig.subject, release_child{1ms});

  REQUIRE_FALSE(released);
  CHECK(released.error().code == errc::deadline_exceeded);
  CHECK_THAT(released.error().detail, Catch::Contains("blocks.1"));
  answer->gate->release(block_id{1});
  CHECK(rig.world.ask<answered>(rig.subject, release_child{1s}));
}

} // namespace
} // namespace ferry
