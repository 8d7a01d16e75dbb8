// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/exchange.hpp"

#include "support/catch.hpp"

#include <array>
#include <chrono>
#include <memory>

namespace ferry {
namespace {

/// The first process of this place, as it was before it was this one: it has ended.
process_identity ended_process() {
  auto process = this_process();
  process.id = 1;
  process.started = ~process.started;
  return process;
}

/// Rank 0 of two, of which rank 1 may have ended.
struct rank_0 {
  explicit rank_0(const process_identity& other, nanoseconds patience) {
    const std::array ranks{this_process(), other};
    end = std::make_unique<exchange>(shared, 0, 2, patience, peer_processes(ranks));
  }

  /// Leaves the board as a rank does that ends while it writes why the group has failed.
  void half_a_cause_of_rank_1() {
    exchange_board(shared->bytes()).rank(1).leaves_at = 1;
    exchange_board(shared->bytes()).head().cause.state = 2;
  }

  std::shared_ptr<shared_memory> shared = std::make_shared<shared_memory>(exchange_board::size(2));
  std::unique_ptr<exchange> end;
};

TEST_CASE("a rank that ends while it says why the group failed is the cause itself, at once",
          "[process]") {
  rank_0 subject(ended_process(), std::chrono::minutes(5));
  subject.half_a_cause_of_rank_1();
  const auto begun = std::chrono::steady_clock::now();

  const auto cause = subject.end->failed();

  REQUIRE(cause);
  CHECK(cause->code == errc::transfer_aborted);
  CHECK(cause->rank == 1);
  CHECK_THAT(cause->detail, Catch::Contains("the process of rank 1 has ended"));
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
}

TEST_CASE("a rank that takes too long to say why the group failed is the cause itself",
          "[process]") {
  rank_0 subject(this_process(), std::chrono::milliseconds(100));
  subject.half_a_cause_of_rank_1();

  const auto cause = subject.end->failed();

  REQUIRE(cause);
  CHECK(cause->rank == 1);
}

} // namespace
} // namespace ferry
