// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/ring.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ferry {

namespace {

bool is_waiting(const slot_ticket& ticket) noexcept {
  return ticket.state() == ticket_state::submitted;
}

/// Makes up for what the model did without the ring hearing of it.
result<void> catch_up_with_use(slot_ticket& ticket, std::uint64_t generation) {
  if (ticket.state() == ticket_state::in_use)
    return {};
  return ticket.mark_ready(generation).and_then([&] { return ticket.mark_in_use(generation); });
}

failure unknown_block(block_id block, std::size_t count) {
  return {.code = errc::not_found,
          .detail = "block " + std::to_string(static_cast<std::uint32_t>(block)) +
                    " is not streamed; expected one below " + std::to_string(count)};
}

} // namespace

ring::ring(std::span<const planned_ring> rings, std::size_t slots, ticket_revoker& revoker)
    : revoker_(&revoker), order_(rings) {
  FERRY_ASSERT(slots >= 1);
  grow(slots);
}

void ring::grow(std::size_t slots) {
  FERRY_ASSERT(slots >= seats_.size());
  clear_results();
  seats_.resize(slots);
  predicted_.resize(slots);
  expected_.reserve(slots + 1);
  commands_.reserve(slots);
  emptied_.reserve(slots);
}

bool ring::on_its_way(block_id block) const noexcept {
  return std::ranges::any_of(
      seats_, [block](const seat& s) { return is_waiting(s.ticket) && s.ticket.block() == block; });
}

result<ring::commands> ring::begin_request() {
  clear_results();
  if (in_request_)
    return tl::unexpected(failure{
        .code = errc::busy, .detail = "a request is running; end it before the next one begins"});
  in_request_ = true;
  order_.begin_request();
  fill(revocable::anything, std::nullopt);
  return commands_;
}

result<void> ring::end_request() {
  clear_results();
  if (!in_request_)
    return tl::unexpected(
        failure{.code = errc::invalid_argument, .detail = "no request is running to be ended"});
  if (auto emptied = empty(); !emptied)
    return emptied;
  in_request_ = false;
  order_.end_request();
  return {};
}

result<void> ring::empty() {
  clear_results();
  const seat* held = nullptr;
  for (auto& s : seats_) {
    if (is_waiting(s.ticket))
      try_revoke(s);
    if (s.ticket.state() != ticket_state::in_use)
      continue;
    const auto generation = s.ticket.generation();
    if (!revoker_->is_given_back(id_of(s), generation)) {
      held = &s;
      continue;
    }
    FERRY_ASSERT(leave(s, generation));
    s.unheard = generation;
  }
  if (held != nullptr)
    return tl::unexpected(failure{
        .code = errc::busy,
        .detail = "block " + std::to_string(static_cast<std::uint32_t>(held->ticket.block())) +
                  " is in use; try again after it is released"});
  return {};
}

ring::commands ring::refill() {
  clear_results();
  if (in_request_)
    fill(revocable::nothing, std::nullopt);
  return commands_;
}

result<ring::commands> ring::demand(block_id block) {
  clear_results();
  if (static_cast<std::size_t>(block) >= order_.block_count())
    return tl::unexpected(unknown_block(block, order_.block_count()));
  if (on_its_way(block))
    return commands_;
  order_.record(block);
  if (!fill(revocable::anything, block))
    return tl::unexpected(
        failure{.code = errc::slot_conflict,
                .detail = "block " + std::to_string(static_cast<std::uint32_t>(block)) +
                          " is needed while all " + std::to_string(seats_.size()) +
                          " slots are in use; release a block first or configure more slots"});
  return commands_;
}

result<ring::commands> ring::released(slot_id slot, std::uint64_t generation) {
  clear_results();
  const auto index = static_cast<std::size_t>(slot);
  if (index >= seats_.size())
    return tl::unexpected(failure{.code = errc::stale_handle,
                                  .detail = "slot " + std::to_string(index) +
                                            " was released; there are " +
                                            std::to_string(seats_.size())});
  auto& left = seats_[index];
  if (generation != 0 && std::exchange(left.unheard, 0) == generation)
    return commands_;
  if (auto done = leave(left, generation); !done)
    return tl::unexpected(std::move(done.error()));
  retire_below(left.retires_below);
  if (in_request_)
    fill(revocable::nothing, std::nullopt);
  return commands_;
}

ring::commands ring::pass_over() {
  clear_results();
  const auto next = order_.next_announced();
  FERRY_ASSERT(next.has_value());
  if (auto* passed = oldest_for(*next); passed != nullptr && try_revoke(*passed))
    retire_below(passed->retires_below);
  order_.record(*next);
  fill(revocable::nothing, std::nullopt);
  return commands_;
}

result<ring::commands> ring::announce(std::span<const block_id> blocks) {
  clear_results();
  for (const auto block : blocks)
    if (static_cast<std::size_t>(block) >= order_.block_count())
      return tl::unexpected(unknown_block(block, order_.block_count()));
  order_.announce(blocks);
  if (in_request_)
    fill(revocable::anything, std::nullopt);
  return commands_;
}

void ring::clear_results() noexcept {
  commands_.clear();
  emptied_.clear();
}

slot_id ring::id_of(const seat& which) const noexcept {
  return slot_id{static_cast<std::uint32_t>(&which - seats_.data())};
}

bool ring::try_revoke(seat& which) noexcept {
  const auto generation = which.ticket.generation();
  if (!revoker_->revoke(id_of(which), generation)) {
    FERRY_ASSERT(catch_up_with_use(which.ticket, generation));
    return false;
  }
  FERRY_ASSERT(which.ticket.revoke(generation));
  ++counters_.revoked;
  emptied_.push_back(id_of(which));
  return true;
}

result<void> ring::leave(seat& which, std::uint64_t generation) {
  auto done = catch_up_with_use(which.ticket, generation).and_then([&] {
    return which.ticket.release(generation);
  });
  if (!done)
    return done;
  which.used_before = true;
  if (!which.recorded)
    order_.record(which.ticket.block());
  return {};
}

void ring::retire_below(std::uint64_t generation) noexcept {
  for (auto& s : seats_)
    if (is_waiting(s.ticket) && s.ticket.generation() < generation)
      try_revoke(s);
}

ring::seat* ring::oldest_for(block_id block) noexcept {
  seat* oldest = nullptr;
  for (auto& s : seats_)
    if (is_waiting(s.ticket) && s.ticket.block() == block &&
        (oldest == nullptr || s.ticket.generation() < oldest->ticket.generation()))
      oldest = &s;
  return oldest;
}

/// Gives the demanded block and the next uses expected a slot each, as far as there are any.
/// Returns whether the demanded block has one.
bool ring::fill(revocable what, std::optional<block_id> demanded) {
  for (;;) {
    const auto usable = static_cast<std::size_t>(std::ranges::count_if(
        seats_, [](const seat& s) { return s.ticket.state() != ticket_state::in_use; }));
    if (demanded && usable == 0)
      return false;
    expect(demanded, usable);
    match_tickets();
    if (place_expected(what, demanded.has_value()))
      return true;
  }
}

void ring::expect(std::optional<block_id> demanded, std::size_t usable) noexcept {
  expected_.clear();
  if (demanded)
    expected_.push_back({*demanded});
  if (!in_request_)
    return;
  const auto ahead = std::span(predicted_).first(usable - expected_.size());
  for (std::size_t i = 0, count = order_.predict(ahead); i < count; ++i)
    expected_.push_back({ahead[i]});
}

void ring::match_tickets() noexcept {
  for (auto& s : seats_)
    s.wanted = false;
  std::uint64_t retired = 0;
  for (auto& use : expected_) {
    seat* match = nullptr;
    for (auto& s : seats_)
      if (is_waiting(s.ticket) && !s.wanted && s.ticket.block() == use.block &&
          s.ticket.generation() >= retired &&
          (match == nullptr || s.ticket.generation() < match->ticket.generation()))
        match = &s;
    if (match == nullptr)
      continue;
    match->wanted = true;
    use.generation = match->ticket.generation();
    retired = std::max(retired, match->retires_below);
  }
}

/// Returns false if the model turned out to hold a ticket that was to be revoked: then there are
/// fewer slots than expected uses.
bool ring::place_expected(revocable what, bool demanded) noexcept {
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i].generation != 0)
      continue;
    auto place = std::ranges::find(seats_, ticket_state::reusable,
                                   [](const seat& s) { return s.ticket.state(); });
    if (place == seats_.end()) {
      if (what == revocable::nothing)
        return true;
      place = std::ranges::find_if(seats_,
                                   [](const seat& s) { return is_waiting(s.ticket) && !s.wanted; });
      FERRY_ASSERT(place != seats_.end());
      if (!try_revoke(*place))
        return false;
    }
    fetch(*place, i, demanded && i == 0);
  }
  return true;
}

void ring::fetch(seat& into, std::size_t use, bool demanded) noexcept {
  const auto generation = ++last_generation_;
  auto retires_below = generation;
  for (const auto& later : std::span(expected_).subspan(use + 1))
    if (later.generation != 0)
      retires_below = std::min(retires_below, later.generation);
  const auto block = expected_[use].block;
  FERRY_ASSERT(into.ticket.begin(block, generation));
  expected_[use].generation = generation;
  commands_.push_back({block, id_of(into), generation, retires_below, into.used_before, demanded});
  std::erase(emptied_, id_of(into));
  into.retires_below = retires_below;
  into.recorded = demanded;
  into.wanted = true;
  ++(demanded ? counters_.blocking_loads : counters_.prefetches);
}

} // namespace ferry
