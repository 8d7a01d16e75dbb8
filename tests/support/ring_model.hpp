// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ring.hpp>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ferry::test {

using block_numbers = std::vector<unsigned>;

inline std::vector<block_id> ids(const block_numbers& numbers) {
  std::vector<block_id> all;
  for (const auto number : numbers)
    all.push_back(block_id{number});
  return all;
}

/// Makes rings of so many blocks each, numbered through.
inline std::vector<planned_ring> rings_of(std::initializer_list<unsigned> sizes) {
  std::vector<planned_ring> rings;
  unsigned next = 0;
  for (const auto size : sizes) {
    auto& ring = rings.emplace_back();
    for (unsigned i = 0; i < size; ++i)
      ring.blocks.push_back(block_id{next++});
  }
  return rings;
}

/// A model thread, its mailbox to the ring, and the copies on their way, as the header of `ring`
/// lays down who may do what. Messages and copies may lag behind by a random amount.
class ring_model final : public ticket_revoker {
public:
  ring_model(const std::vector<planned_ring>& rings, std::size_t slots, unsigned lag_seed = 0)
      : policy(rings, slots, *this), board_(slots), random_(lag_seed), lags_(lag_seed != 0) {}

  void begin_request() { apply(policy.begin_request()); }

  result<void> end_request() {
    deliver_everything();
    return policy.end_request();
  }

  result<void> empty() {
    deliver_everything();
    return policy.empty();
  }

  void grow(std::size_t slots) {
    policy.grow(slots);
    board_.resize(slots);
  }

  void refill() { apply(policy.refill()); }

  void announce(const block_numbers& next) { send(ids(next)); }

  /// Runs nothing of what is left of the announcement.
  void pass_over() {
    deliver_everything();
    while (policy.has_announced())
      apply(policy.pass_over());
  }

  void acquire(unsigned block) {
    maybe_deliver();
    if (!take(block)) {
      send(demand{block_id{block}});
      deliver_everything();
      if (!take(block))
        throw std::logic_error("block " + std::to_string(block) + " never came");
    }
  }

  void release(unsigned block) {
    const auto held = std::ranges::find_if(board_, [block](const entry& e) {
      return e.state == taken && e.fetch.block == block_id{block};
    });
    held->state = used;
    floor_ = std::max(floor_, held->fetch.retires_below);
    send(release_of{held->fetch.slot, held->fetch.generation});
    maybe_deliver();
  }

  void run(const block_numbers& order) {
    for (const auto block : order) {
      acquire(block);
      release(block);
    }
  }

  /// Runs `order` as one request.
  void request(const block_numbers& order, unsigned times = 1) {
    begin_request();
    for (unsigned i = 0; i < times; ++i)
      run(order);
    if (!end_request())
      throw std::logic_error("a request did not end");
  }

  bool revoke(slot_id slot, std::uint64_t generation) noexcept override {
    auto& e = board_[static_cast<std::size_t>(slot)];
    const auto is_current = e.fetch.generation == generation;
    if (is_current && (e.state == taken || e.state == used))
      return false;
    if (is_current)
      e.state = nothing;
    std::erase_if(copies_, [&](const auto& copy) { return copy.generation == generation; });
    return true;
  }

  bool is_given_back(slot_id slot, std::uint64_t generation) const noexcept override {
    const auto& e = board_[static_cast<std::size_t>(slot)];
    return e.fetch.generation == generation && e.state == used;
  }

  /// Loses every message to the ring that is on its way.
  void lose_messages() { mailbox_.clear(); }
  /// Lets messages wait from now on, until something has to be delivered.
  void hold_messages() { holds_ = true; }

  [[nodiscard]] std::uint64_t blocking_loads() {
    deliver_everything();
    return policy.counters().blocking_loads;
  }

  [[nodiscard]] block_numbers on_the_board() const {
    block_numbers there;
    for (const auto& e : board_)
      if (e.state == published || e.state == taken)
        there.push_back(static_cast<unsigned>(e.fetch.block));
    return there;
  }

  std::vector<fetch_command> trace; ///< Every fetch, in order.
  ring policy;

private:
  enum progress { nothing, published, taken, used };
  struct entry {
    fetch_command fetch;
    progress state = nothing;
  };
  struct demand {
    block_id block;
  };
  struct release_of {
    slot_id slot;
    std::uint64_t generation;
  };
  using message = std::variant<demand, release_of, std::vector<block_id>>;

  bool take(unsigned block) {
    entry* found = nullptr;
    for (auto& e : board_)
      if (e.state == published && e.fetch.block == block_id{block} &&
          e.fetch.generation >= floor_ &&
          (found == nullptr || e.fetch.generation < found->fetch.generation))
        found = &e;
    if (found == nullptr)
      return false;
    found->state = taken;
    return true;
  }

  void send(message m) {
    mailbox_.push_back(std::move(m));
    if (!lags_ && !holds_)
      deliver_everything();
  }

  void deliver_one() {
    const auto m = std::move(mailbox_.front());
    mailbox_.pop_front();
    if (const auto* wanted = std::get_if<demand>(&m))
      apply(policy.demand(wanted->block));
    else if (const auto* done = std::get_if<release_of>(&m))
      apply(policy.released(done->slot, done->generation));
    else
      apply(policy.announce(std::get<std::vector<block_id>>(m)));
  }

  void apply(const result<ring::commands>& commands) {
    if (!commands)
      throw std::runtime_error(describe(commands.error()));
    for (const auto& fetch : *commands) {
      const auto& there = board_[static_cast<std::size_t>(fetch.slot)];
      if (there.state == published || there.state == taken)
        throw std::logic_error("a fetch goes to a slot that is not free");
      trace.push_back(fetch);
      copies_.push_back(fetch);
    }
    if (!lags_)
      publish_everything();
  }

  void publish_one() {
    board_[static_cast<std::size_t>(copies_.front().slot)] = {copies_.front(), published};
    copies_.pop_front();
  }

  void publish_everything() {
    while (!copies_.empty())
      publish_one();
  }

  void maybe_deliver() {
    while (lags_ && random_() % 3 != 0) {
      if (!mailbox_.empty())
        deliver_one();
      if (!copies_.empty() && random_() % 2 == 0)
        publish_one();
    }
  }

  void deliver_everything() {
    while (!mailbox_.empty())
      deliver_one();
    publish_everything();
  }

  std::vector<entry> board_;
  std::deque<message> mailbox_;
  std::deque<fetch_command> copies_;
  std::uint64_t floor_ = 0;
  std::mt19937 random_;
  bool lags_;
  bool holds_ = false;
};

} // namespace ferry::test
