// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/ticket.hpp"

#include <string>

namespace ferry {

std::string_view to_string(ticket_state state) noexcept {
  switch (state) {
    case ticket_state::reusable:
      return "reusable";
    case ticket_state::submitted:
      return "submitted";
    case ticket_state::ready:
      return "ready";
    case ticket_state::in_use:
      return "in use";
  }
  return "unknown";
}

result<void> slot_ticket::begin(block_id block, std::uint64_t generation) {
  if (state_ != ticket_state::reusable) {
    if (generation == generation_ && block == block_)
      return {};
    return tl::unexpected(conflict("begin another use of"));
  }
  if (generation <= generation_)
    return tl::unexpected(
        failure{.code = errc::stale_handle,
                .detail = "cannot begin generation " + std::to_string(generation) +
                          " of a slot that has seen generation " + std::to_string(generation_) +
                          "; expected a larger one"});
  generation_ = generation;
  block_ = block;
  state_ = ticket_state::submitted;
  return {};
}

result<void> slot_ticket::mark_ready(std::uint64_t generation) {
  return advance(generation, "mark as ready", state_ == ticket_state::submitted,
                 ticket_state::ready);
}

result<void> slot_ticket::mark_in_use(std::uint64_t generation) {
  return advance(generation, "take",
                 state_ == ticket_state::ready || state_ == ticket_state::in_use,
                 ticket_state::in_use);
}

result<void> slot_ticket::release(std::uint64_t generation) {
  return advance(generation, "release",
                 state_ == ticket_state::ready || state_ == ticket_state::in_use,
                 ticket_state::reusable);
}

result<void> slot_ticket::revoke(std::uint64_t generation) {
  return advance(generation, "revoke",
                 state_ == ticket_state::submitted || state_ == ticket_state::ready,
                 ticket_state::reusable);
}

result<void> slot_ticket::advance(std::uint64_t generation, std::string_view act, bool allowed,
                                  ticket_state to) {
  if (generation != generation_)
    return tl::unexpected(failure{.code = errc::stale_handle,
                                  .detail = "cannot " + std::string(act) + " generation " +
                                            std::to_string(generation) + " of a slot; generation " +
                                            std::to_string(generation_) + " is current"});
  if (!allowed)
    return tl::unexpected(conflict(act));
  state_ = to;
  return {};
}

failure slot_ticket::conflict(std::string_view act) const {
  return {.code = errc::slot_conflict,
          .detail = "cannot " + std::string(act) + " a slot that is " +
                    std::string(to_string(state_)) + " for block " +
                    std::to_string(static_cast<std::uint32_t>(block_)) + " in generation " +
                    std::to_string(generation_)};
}

} // namespace ferry
