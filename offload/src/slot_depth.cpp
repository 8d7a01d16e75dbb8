// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/slot_depth.hpp"

#include <ferry/offload/schedule_model.hpp>

#include <algorithm>
#include <utility>

namespace ferry {

nanoseconds time_in_slots(std::span<const block_use> uses, std::size_t slots) {
  schedule_model model({.slots = slots});
  block_cost cost{.compute = {}, .pieces = {piece_cost{}}};
  for (const auto& each : uses) {
    cost.compute = each.compute;
    cost.pieces.front().copy = each.transfer;
    model.run(cost);
  }
  return model.end();
}

std::size_t slots_worth_having(std::span<const block_use> uses, std::size_t slots,
                               std::size_t most) {
  auto time = time_in_slots(uses, slots);
  for (; slots < most; ++slots) {
    const auto with_one_more = time_in_slots(uses, slots + 1);
    if ((time - with_one_more) * 100 < time || uses.empty())
      break;
    time = with_one_more;
  }
  return slots;
}

use_recorder::use_recorder() {
  uses_.reserve(most_uses);
}

use_recorder::fetch& use_recorder::of(std::uint64_t ticket) noexcept {
  auto& found = fetches_[ticket % fetches_.size()];
  if (found.ticket != ticket)
    found = {ticket, {}};
  return found;
}

void use_recorder::on_operation(const operation_span& span) {
  const std::lock_guard lock{mutex_};
  if (span.kind == operation_kind::copy && span.tag.ticket != 0)
    of(span.tag.ticket).transfer += span.end - span.start;
  if (!block_marks::is_gate_mark(span))
    return;
  if (const auto use = marks_.add(span); use && uses_.size() != most_uses)
    uses_.push_back({of(use->ticket).transfer, use->ended - use->begun});
}

std::vector<block_use> use_recorder::take() {
  const std::lock_guard lock{mutex_};
  std::vector<block_use> taken;
  if (uses_.size() < least_uses)
    return taken;
  taken.reserve(most_uses);
  std::swap(taken, uses_);
  return taken;
}

} // namespace ferry
