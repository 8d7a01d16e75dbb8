// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/gather_group.hpp"

#include "collective_words.hpp"
#include "sim/machine.hpp"

#include <utility>

namespace ferry::sim {

rank_group::rank_group(std::shared_ptr<sim_machine> joined, std::size_t size,
                       nanoseconds patience_of_all)
    : machine(std::move(joined)), patience(patience_of_all), ranks(size) {}

void rank_group::fail(const failure& cause) {
  if (failed)
    return;
  failed = cause;
  for (auto& [number, collective] : std::exchange(open_, {})) {
    collective->given_up = true;
    collective->joined->clock = {};
    collective->joined->arrived = true;
  }
  machine->somebody_arrived.notify_all();
}

void rank_group::expire(const gather_group& collective) {
  auto missing = std::string();
  auto first = std::optional<int>();
  for (std::size_t rank = 0; rank < collective.members.size(); ++rank) {
    if (collective.members[rank].op)
      continue;
    missing += (first ? ", rank " : "rank ") + std::to_string(rank);
    first = first.value_or(static_cast<int>(rank));
  }
  const auto reason = not_arrived(missing, collective.number);
  fail({.code = errc::deadline_exceeded, .detail = reason, .rank = first});
  throw device_error(errc::deadline_exceeded, "synchronize", reason);
}

void rank_group::leave(std::size_t rank) {
  ranks[rank].left = true;
  const auto number = ranks[rank].next;
  if (open_.lower_bound(number) != open_.end())
    fail({.code = errc::transfer_aborted,
          .detail = left_before(static_cast<int>(rank), number),
          .rank = static_cast<int>(rank)});
}

std::shared_ptr<gather_group> rank_group::join(std::uint64_t number) {
  auto& collective = open_[number];
  if (!collective) {
    collective = std::make_shared<gather_group>();
    collective->number = number;
    collective->members.resize(ranks.size());
    collective->joined = std::make_shared<late_clock>();
    collective->owner = weak_from_this();
  }
  return collective;
}

void rank_group::complete(gather_group& collective) {
  // All before it have arrived too: whoever takes this in need not go back through them.
  collective.joined->clock.resolve();
  collective.joined->arrived = true;
  open_.erase(collective.number);
  machine->somebody_arrived.notify_all();
}

} // namespace ferry::sim
