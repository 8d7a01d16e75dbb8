// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/log.hpp>

#include "guarded.hpp"
#include "placement.hpp"

#include <algorithm>
#include <string>

namespace ferry {

void placement::watch_uses() {
  if (through_->slot_count() != through_->most_slots())
    watch_.emplace(*owner_);
}

void placement::add_slots_worth_having(std::optional<std::uint64_t> ceiling) {
  if (!watch_)
    return;
  through_->drain_compute(slots_wait_compute);
  const auto worth =
      slots_worth_having(watch_->uses.take(), through_->slot_count(), through_->most_slots());
  auto more = true;
  while (more && through_->slot_count() != worth)
    more = add_slot(ceiling);
  if (!more || worth == through_->most_slots())
    watch_.reset();
}

bool placement::add_slot(std::optional<std::uint64_t> ceiling) {
  const auto bytes = plan_.transfers.slot_bytes;
  const auto free = owner_->memory().free;
  if (bytes > free || (ceiling && device_bytes() + bytes > *ceiling)) {
    log(log_level::info, "ferry.actors",
        "keep slots count=" + std::to_string(through_->slot_count()) +
            " reason=\"no device memory for another\"");
    return false;
  }
  auto taken = attempt([&] { added_slots_.emplace_back(*owner_, memory_kind::device, bytes); });
  if (!taken) {
    log(log_level::warn, "ferry.actors",
        "keep slots count=" + std::to_string(through_->slot_count()) +
            " reason=" + describe(taken.error()));
    return false;
  }
  through_->add_slot(added_slots_.back().bytes());
  log(log_level::info, "ferry.actors", "add slot count=" + std::to_string(through_->slot_count()));
  return true;
}

} // namespace ferry
