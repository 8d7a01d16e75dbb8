// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>

#include "support/actor_world.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <chrono>
#include <optional>
#include <utility>

namespace ferry {
namespace {

using Catch::Contains;
using test::actor_world;

/// The actor on a machine that a test describes, and a tenant that may end.
struct host {
  explicit host(std::optional<std::uint64_t> ceiling = std::nullopt)
      : subject(spawn_host_memory(world.system(), {ceiling, machine.path()})) {}
  ~host() { kill(subject); }

  /// Asks for one store of `bytes`, as the tenant.
  [[nodiscard]] result<pin_lease> lease(std::size_t bytes) {
    result<pin_lease> outcome = tl::unexpected(failure{});
    auto pending =
        inquire(tenant->ptr(), subject, std::chrono::hours{1},
                lease_host_memory{.who = "wan", .stores = {{"blocks.0", bytes, 0}}, .wish = {}});
    world.dispatch_messages();
    pending.receive(
        [&](pin_lease& granted) { outcome = std::move(granted); },
        [&](const caf::error& reason) { outcome = tl::unexpected(to_failure(reason)); });
    return outcome;
  }
  /// Gives back all that the tenant has leased.
  void give_back() {
    tell(tenant->ptr(), subject, give_back_leases{});
    world.dispatch_messages();
  }
  [[nodiscard]] host_memory_state state() {
    return world.ask<host_memory_state>(subject, query_host_memory{}).value();
  }

  test::scratch_directory machine;
  actor_world world;
  host_memory_actor subject;
  std::optional<caf::scoped_actor> tenant{world.system()};
};

TEST_CASE("a lease is granted, listed by name, and given back", "[actors][host_memory]") {
  host memory;

  const auto granted = memory.lease(1000);

  REQUIRE(granted);
  CHECK(granted->plan.pins(0));
  const auto during = memory.state();
  CHECK(during.pinned == 1000);
  REQUIRE(during.leases.size() == 1);
  CHECK(during.leases[0].who == "wan");
  memory.give_back();
  CHECK(memory.state().pinned == 0);
}

TEST_CASE("giving back twice is once", "[actors][host_memory]") {
  host memory;
  REQUIRE(memory.lease(1000));

  memory.give_back();
  memory.give_back();

  CHECK(memory.state().pinned == 0);
  CHECK(memory.lease(1000));
}

TEST_CASE("a tenant gives back what it has leased, and nothing of others",
          "[actors][host_memory]") {
  host memory;
  REQUIRE(memory.lease(1000));
  REQUIRE(memory.lease(1000));

  REQUIRE(memory.world.ask<void>(memory.subject, give_back_leases{}));
  CHECK(memory.state().pinned == 2000);
  memory.give_back();

  CHECK(memory.state().pinned == 0);
}

TEST_CASE("the refusal of a lease says what was asked, allowed and pinned",
          "[actors][host_memory]") {
  host memory{1500};
  REQUIRE(memory.lease(1000));

  const auto refused = memory.lease(700);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_host_memory);
  CHECK_THAT(refused.error().detail, Contains("takes 700 bytes") && Contains("allows 1500") &&
                                         Contains("1000 are pinned already"));
  CHECK(memory.state().pinned == 1000);
}

TEST_CASE("a lease is refused beyond the memory limit of the container", "[actors][host_memory]") {
  host memory;
  memory.machine.write("proc/self/cgroup", "0::/app\n");
  memory.machine.write("sys/fs/cgroup/app/memory.max", "5000\n");
  memory.machine.write("sys/fs/cgroup/app/memory.current", "4500\n");

  const auto refused = memory.lease(1000);

  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().detail, Contains("500 are available") && Contains("memory.max"));
  CHECK(memory.state().host.limit == 5000);
}

TEST_CASE("a lease that is settled holds what its stores really take", "[actors][host_memory]") {
  host memory;
  const auto granted = memory.lease(1000);
  REQUIRE(granted);

  CHECK(memory.world.ask<void>(memory.subject, settle_lease{granted->id, 400}));

  CHECK(memory.state().pinned == 400);
}

TEST_CASE("a lease that is not held cannot be settled", "[actors][host_memory]") {
  host memory;

  const auto settled = memory.world.ask<void>(memory.subject, settle_lease{lease_id{7}, 0});

  REQUIRE_FALSE(settled);
  CHECK(settled.error().code == errc::stale_handle);
}

TEST_CASE("the lease of a holder that ends is taken back", "[actors][host_memory]") {
  host memory;
  REQUIRE(memory.lease(1000));
  REQUIRE(memory.lease(1000));

  memory.tenant.reset();
  memory.world.dispatch_messages();

  CHECK(memory.state().pinned == 0);
}

TEST_CASE("a drained host memory refuses leases with the first cause and takes others back",
          "[actors][host_memory]") {
  host memory;
  REQUIRE(memory.lease(1000));
  const failure first{errc::device_failure, "the link is down"};
  REQUIRE(memory.world.ask<void>(memory.subject, drain_child{first, true}));
  REQUIRE(memory.world.ask<void>(memory.subject,
                                 drain_child{{errc::transfer_aborted, "stopping"}, false}));

  CHECK(memory.lease(1).error() == first);
  memory.give_back();
  CHECK(memory.state().pinned == 0);
}

TEST_CASE("host memory starts at once and ends when it is released", "[actors][host_memory]") {
  host memory;

  CHECK(memory.world.ask<void>(memory.subject, start_child{1}));
  CHECK(memory.world.ask<answered>(memory.subject, release_child{}));

  CHECK_FALSE(memory.world.ask<host_memory_state>(memory.subject, query_host_memory{}));
}

} // namespace
} // namespace ferry
