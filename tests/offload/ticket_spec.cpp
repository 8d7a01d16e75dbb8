// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/ticket.hpp>

#include "support/catch.hpp"

namespace ferry {
namespace {

enum class act { begin, mark_ready, mark_in_use, release, revoke };

result<void> perform(slot_ticket& ticket, act what, std::uint64_t generation) {
  switch (what) {
    case act::begin:
      return ticket.begin(block_id{9}, generation);
    case act::mark_ready:
      return ticket.mark_ready(generation);
    case act::mark_in_use:
      return ticket.mark_in_use(generation);
    case act::release:
      return ticket.release(generation);
    case act::revoke:
      return ticket.revoke(generation);
  }
  return {};
}

slot_ticket ticket_in(ticket_state state) {
  slot_ticket ticket;
  REQUIRE(ticket.begin(block_id{7}, 3));
  if (state != ticket_state::submitted)
    REQUIRE(ticket.mark_ready(3));
  if (state == ticket_state::in_use)
    REQUIRE(ticket.mark_in_use(3));
  if (state == ticket_state::reusable)
    REQUIRE(ticket.release(3));
  return ticket;
}

struct transition {
  ticket_state from;
  act what;
  ticket_state to;
};

TEST_CASE("a ticket goes through its states in the order of the contract", "[offload][ticket]") {
  using enum ticket_state;
  const auto [from, what, to] = GENERATE(values<transition>({
      {reusable, act::begin, submitted},
      {submitted, act::mark_ready, ready},
      {ready, act::mark_in_use, in_use},
      {in_use, act::mark_in_use, in_use},
      {ready, act::release, reusable},
      {in_use, act::release, reusable},
      {submitted, act::revoke, reusable},
      {ready, act::revoke, reusable},
  }));
  auto ticket = ticket_in(from);

  const auto done = perform(ticket, what, what == act::begin ? 4 : 3);

  CHECK(done);
  CHECK(ticket.state() == to);
}

TEST_CASE("an act that the state does not allow is a slot conflict and changes nothing",
          "[offload][ticket]") {
  using enum ticket_state;
  const auto [from, what, to] = GENERATE(values<transition>({
      {submitted, act::begin, submitted},
      {ready, act::begin, ready},
      {in_use, act::begin, in_use},
      {reusable, act::mark_ready, reusable},
      {ready, act::mark_ready, ready},
      {in_use, act::mark_ready, in_use},
      {reusable, act::mark_in_use, reusable},
      {submitted, act::mark_in_use, submitted},
      {reusable, act::release, reusable},
      {submitted, act::release, submitted},
      {reusable, act::revoke, reusable},
      {in_use, act::revoke, in_use},
  }));
  auto ticket = ticket_in(from);

  const auto done = perform(ticket, what, what == act::begin ? 4 : 3);

  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::slot_conflict);
  CHECK(ticket.state() == to);
  CHECK(ticket.block() == block_id{7});
}

TEST_CASE("whoever acts for another generation is told that the handle is stale",
          "[offload][ticket]") {
  const auto what = GENERATE(act::mark_ready, act::mark_in_use, act::release, act::revoke);
  const auto generation = GENERATE(2u, 4u);
  auto ticket = ticket_in(ticket_state::ready);

  const auto done = perform(ticket, what, generation);

  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::stale_handle);
  CHECK(ticket.state() == ticket_state::ready);
}

TEST_CASE("beginning the very same use again changes nothing", "[offload][ticket]") {
  auto ticket = ticket_in(ticket_state::ready);

  CHECK(ticket.begin(block_id{7}, 3));

  CHECK(ticket.state() == ticket_state::ready);
}

TEST_CASE("a generation is never used twice", "[offload][ticket]") {
  auto ticket = ticket_in(ticket_state::reusable);

  const auto again = ticket.begin(block_id{7}, 3);

  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::stale_handle);
  CHECK(ticket.begin(block_id{7}, 4));
  CHECK(ticket.generation() == 4);
}

} // namespace
} // namespace ferry
