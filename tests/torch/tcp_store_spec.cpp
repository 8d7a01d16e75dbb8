// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/torch/tcp_store.hpp>

#include "contract/meetings.hpp"
#include "support/taken_port.hpp"
#include "torch/catch.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

namespace ferry::test {

inline launched_rank at_port(std::uint16_t port, int rank, int size) {
  return {.rank = rank, .size = size, .local_rank = rank, .address = "127.0.0.1", .port = port};
}

using joined_rank = result<std::unique_ptr<rendezvous>>;

inline std::future<joined_rank> join_as(const launched_rank& self, nanoseconds patience) {
  return std::async(std::launch::async, join_launched_ranks, self, patience);
}

struct launched_ranks_meet {
  static meetings open(int size) {
    const auto port = free_port();
    std::vector<std::future<joined_rank>> joining;
    for (int rank = 0; rank < size; ++rank)
      joining.push_back(join_as(at_port(port, rank, size), std::chrono::minutes(5)));
    meetings ends;
    for (auto& joined : joining)
      ends.push_back(std::move(joined.get().value()));
    return ends;
  }
};

} // namespace ferry::test

#define FERRY_RENDEZVOUS_SUBJECTS launched_ranks_meet
#include "contract/rendezvous_contract.hpp"

namespace ferry::test {
namespace {

using Catch::Contains;

constexpr nanoseconds brief = std::chrono::milliseconds(300);

TEST_CASE("a store that nobody hosts is missed within the patience, by address",
          "[torch][rendezvous]") {
  const auto port = free_port();

  const auto joined = join_launched_ranks(at_port(port, 1, 2), brief);

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::deadline_exceeded);
  CHECK(joined.error().rank == 0);
  CHECK_THAT(joined.error().detail,
             Contains("no store answers at 127.0.0.1:" + std::to_string(port) + " within 300 ms") &&
                 Contains("MASTER_PORT"));
}

TEST_CASE("an address that names no host is refused at once", "[torch][rendezvous]") {
  auto self = at_port(free_port(), GENERATE(0, 1), 2);
  self.address = "no such host";
  const auto begun = std::chrono::steady_clock::now();

  const auto joined = join_launched_ranks(self, unlimited);

  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::invalid_config);
  CHECK(joined.error().rank == self.rank);
  CHECK_THAT(joined.error().detail,
             Contains("MASTER_ADDR is 'no such host', which is no known host ("));
}

TEST_CASE("rank 0 that cannot reach itself says that the address is not this machine's",
          "[torch][rendezvous]") {
  auto self = at_port(free_port(), 0, 2);
  self.address = "192.0.2.1"; // Of a network that is there for examples alone.

  const auto joined = join_launched_ranks(self, brief);

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::invalid_config);
  CHECK_THAT(joined.error().detail,
             Contains("MASTER_ADDR is '192.0.2.1', which is no address of this machine; expected "
                      "the address of rank 0's machine"));
}

/// What has the port that ranks are to meet at.
enum class occupant : std::uint8_t { nobody_who_speaks, store_of_another_job };

TEST_CASE("a port that something else has is refused by all ranks in the same words",
          "[torch][rendezvous]") {
  const auto who = GENERATE(occupant::nobody_who_speaks, occupant::store_of_another_job);
  const taken_port silent;
  auto other = at_port(free_port(), 0, 2);
  other.job = "another";
  const auto foreign = open_tcp_store(other, unlimited);
  auto port = other.port;
  if (who == occupant::nobody_who_speaks) {
    silent.listen();
    port = silent.number();
  }

  auto second = join_as(at_port(port, 1, 2), unlimited);
  const auto first = join_as(at_port(port, 0, 2), unlimited).get();
  const auto told = second.get();

  REQUIRE_FALSE(first);
  CHECK(first.error().code == errc::io_failure);
  CHECK(first.error().rank == 0);
  CHECK_THAT(first.error().detail, Contains("port " + std::to_string(port) +
                                            " of 127.0.0.1 is in use by something that is not the "
                                            "store of this run; set another MASTER_PORT"));
  REQUIRE_FALSE(told);
  CHECK(told.error() == first.error());
}

TEST_CASE("a second rank 0 is refused and disturbs nobody", "[torch][rendezvous]") {
  const auto port = free_port();
  const auto host = open_tcp_store(at_port(port, 0, 2), unlimited);
  const auto failed = std::array<std::string, 1>{"failed"};

  const auto second = open_tcp_store(at_port(port, 0, 2), unlimited);

  REQUIRE_FALSE(second);
  CHECK_THAT(second.error().detail, Contains("unless two processes are rank 0"));
  CHECK_FALSE((*host)->await(failed, nanoseconds::zero()));
}

TEST_CASE("somebody else at the port who never speaks is missed within the patience",
          "[torch][rendezvous]") {
  const taken_port port;
  port.listen();

  const auto joined = join_launched_ranks(at_port(port.number(), 1, 2), brief);

  REQUIRE_FALSE(joined);
  CHECK_THAT(joined.error().detail, Contains("no store answers"));
}

TEST_CASE("a rank beyond its world fails all ranks in the same words", "[torch][rendezvous]") {
  const auto port = free_port();
  auto first = join_as(at_port(port, 0, 2), unlimited);
  auto beyond = join_as(at_port(port, 2, 2), unlimited);

  const auto refused = beyond.get();
  const auto told = first.get();

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK(refused.error().rank == 2);
  REQUIRE_FALSE(told);
  CHECK(told.error() == refused.error());
}

TEST_CASE("a store that goes while ranks wait fails them", "[torch][rendezvous]") {
  const auto port = free_port();
  auto host = open_tcp_store(at_port(port, 0, 2), unlimited);
  const auto guest = open_tcp_store(at_port(port, 1, 2), unlimited);
  REQUIRE(host);
  REQUIRE(guest);
  REQUIRE((*guest)->offer("here", {}));
  CHECK_FALSE((*guest)->offer("here", {}));

  host->reset();

  CHECK_THROWS_WITH((*guest)->offer("gone", {}),
                    Contains("the store of rank 0 at 127.0.0.1") && Contains("(rank 0)"));
}

TEST_CASE("the rank that hosts the store stays until the others know why it goes",
          "[torch][rendezvous]") {
  auto ends = launched_ranks_meet::open(2);
  auto waiting =
      std::async(std::launch::async, [&] { return meet_as(*ends[1], "votes", "fine", unlimited); });
  auto leaving = std::async(std::launch::async, [&] {
    ends[0]->poison({.code = errc::io_failure, .detail = "the disk is full"});
    ends[0].reset();
  });

  const auto told = waiting.get();
  ends[1].reset();
  leaving.get();

  REQUIRE_FALSE(told);
  CHECK(told.error().detail == "the disk is full");
  CHECK(told.error().rank == 0);
}

TEST_CASE("attempts of a launcher, and jobs at one place, do not see each other's keys",
          "[torch][rendezvous]") {
  const auto port = free_port();
  auto first = at_port(port, 0, 1);
  auto second = first;
  second.agent_hosts = true;
  SECTION("another attempt") {
    second.restart = 1;
  }
  SECTION("another job") {
    second.job = "4711.0";
  }
  const auto host = open_tcp_store(first, unlimited);
  const auto restarted = open_tcp_store(second, unlimited);
  const auto key = std::array<std::string, 1>{"failed"};

  REQUIRE((*host)->offer("failed", {}));

  CHECK_FALSE((*restarted)->await(key, nanoseconds::zero()));
}

} // namespace
} // namespace ferry::test
