// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "block_prefetcher.hpp"

#include "guarded.hpp"

#include <utility>

namespace ferry {
namespace {

/// Unwraps the outcome of the ring.
template <class T>
T checked(result<T> outcome) {
  if (!outcome)
    throw ferry_error{std::move(outcome.error())};
  if constexpr (!std::is_void_v<T>)
    return *outcome;
}

} // namespace

block_prefetcher::block_prefetcher(caf::actor_config& config, std::shared_ptr<device> owner,
                                   copy_stream_actor copies, supervisor_actor supervisor)
    : block_prefetcher_actor::base(config), owner_(std::move(owner)), copies_(std::move(copies)),
      supervisor_(std::move(supervisor)) {}

block_prefetcher::behavior_type block_prefetcher::make_behavior() {
  // CAF tries handlers in this order: what comes with every block comes first.
  return {
      [this](const block_released& m) { return guarded(this, m, [&] { released(m); }); },
      [this](const demand_block& m) { return guarded(this, m, [&] { demand(m); }); },
      [this](const open_ring& m) { return guarded(this, m, [&] { return open(m); }); },
      [this](const close_ring& m) { return guarded(this, m, [&] { return close(m); }); },
      [this](const begin_request& m) { return guarded(this, m, [&] { return begin(m); }); },
      [this](const end_request& m) { return guarded(this, m, [&] { return end(m); }); },
      [this](const empty_ring& m) { return guarded(this, m, [&] { return empty(m); }); },
      [this](const refill_ring& m) { return guarded(this, m, [&] { return refill(m); }); },
      [this](const announce_blocks& m) { return guarded(this, m, [&] { return announce(m); }); },
      [this](const query_ring& m) { return guarded(this, m, [&] { return count(); }); },
      [this](const start_child& m) { return guarded(this, m, [&] { start(m); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) { return guarded(this, m, [&] { return release(); }); },
  };
}

void block_prefetcher::on_exit() {
  ring_ = nullptr;
  through_ = nullptr;
  copies_ = nullptr;
  supervisor_ = nullptr;
}

void block_prefetcher::start(const start_child& message) {
  generation_ = message.generation;
  me_.emplace(*owner_, name());
}

void block_prefetcher::drain(const drain_child& message) {
  if (!refusal_)
    refusal_ = message.cause;
}

answered block_prefetcher::release() {
  ring_ = nullptr;
  through_ = nullptr;
  me_.reset();
  quit();
  return {};
}

answered block_prefetcher::open(const open_ring& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (ring_ != nullptr)
    throw ferry_error{{errc::busy, "the prefetcher serves a backend already"}};
  FERRY_ASSERT(me_.has_value());
  const host_thread::scope scope{*me_, message.stamp};
  through_ = message.through;
  ring_ = std::make_unique<ring>(through_->rings(), through_->slot_count(), through_->board());
  explicit_request_ = false;
  next_gather_ = 0;
  begin_implicitly();
  return {owner_->stamp()};
}

answered block_prefetcher::close(const close_ring& message) {
  if (ring_ == nullptr)
    return {};
  const host_thread::scope scope{*me_, message.stamp};
  if (!refusal_ && ring_->in_request()) {
    static_cast<void>(ring_->end_request());
    submit({});
  }
  ring_ = nullptr;
  through_ = nullptr;
  return {owner_->stamp()};
}

answered block_prefetcher::begin(const begin_request& message) {
  check_open();
  if (explicit_request_)
    throw ferry_error{{errc::busy, "a request is running; end it before the next one begins"}};
  const host_thread::scope scope{*me_, message.stamp};
  // What did not come in time may never come: it is asked for again. Not where ranks gather: only
  // this rank would gather it again.
  const auto was_late = through_->board().was_late() && !through_->gathers();
  if (ring_->in_request() && (used_implicitly_ || was_late))
    end_now();
  if (const auto slots = through_->slot_count(); slots != ring_->slots()) {
    ring_->grow(slots);
    submit(ring_->refill());
  }
  if (!ring_->in_request())
    begin_implicitly();
  explicit_request_ = true;
  if (!message.blocks.empty())
    submit(checked(ring_->announce(message.blocks)));
  return {owner_->stamp()};
}

answered block_prefetcher::end(const end_request& message) {
  check_open();
  if (!explicit_request_)
    throw ferry_error{{errc::not_enabled, "no request is running; begin one first"}};
  check_nothing_in_use();
  const host_thread::scope scope{*me_, message.stamp};
  while (through_->gathers() && ring_->has_announced())
    submit(ring_->pass_over());
  end_now();
  explicit_request_ = false;
  return {owner_->stamp()};
}

answered block_prefetcher::empty(const empty_ring& message) {
  check_open();
  if (explicit_request_)
    throw ferry_error{{errc::busy, "a request is running; end it first"}};
  check_nothing_in_use();
  const host_thread::scope scope{*me_, message.stamp};
  auto emptied = ring_->empty();
  submit({});
  checked(std::move(emptied));
  return {owner_->stamp()};
}

answered block_prefetcher::refill(const refill_ring& message) {
  check_open();
  const host_thread::scope scope{*me_, message.stamp};
  submit(ring_->refill());
  return {owner_->stamp()};
}

answered block_prefetcher::announce(const announce_blocks& message) {
  check_open();
  const host_thread::scope scope{*me_, message.stamp};
  submit(checked(ring_->announce(message.blocks)));
  return {owner_->stamp()};
}

void block_prefetcher::demand(const demand_block& message) {
  if (idle() || ring_->on_its_way(message.block))
    return;
  const auto outcome = attempt([&] {
    const host_thread::scope scope{*me_, message.stamp};
    if (!ring_->in_request())
      begin_implicitly();
    if (!ring_->on_its_way(message.block))
      submit(checked(ring_->demand(message.block)));
  });
  if (!outcome)
    fail(outcome.error());
}

void block_prefetcher::released(const block_released& message) {
  if (idle())
    return;
  const auto outcome = attempt([&] {
    const host_thread::scope scope{*me_, message.stamp};
    used_implicitly_ = true;
    submit(checked(ring_->released(message.slot, message.generation)));
  });
  if (!outcome)
    fail(outcome.error());
}

ring_counts block_prefetcher::count() const {
  if (ring_ == nullptr)
    return {};
  return {.prefetches = ring_->counters().prefetches,
          .blocking_loads = ring_->counters().blocking_loads};
}

void block_prefetcher::check_open() const {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (ring_ == nullptr)
    throw ferry_error{{errc::not_enabled, "no backend is enabled"}};
}

void block_prefetcher::check_nothing_in_use() const {
  if (const auto held = through_->board().any_in_use())
    throw ferry_error{{errc::busy, "a block is in use; end the request after it is released",
                       through_->at(*held).path}};
}

void block_prefetcher::begin_implicitly() {
  used_implicitly_ = false;
  submit(checked(ring_->begin_request()));
}

void block_prefetcher::end_now() {
  auto ended = ring_->end_request();
  submit({});
  checked(std::move(ended));
}

void block_prefetcher::submit(ring::commands commands) {
  for (const auto slot : ring_->emptied())
    tell(this, copies_, discard_slot{slot, owner_->stamp()});
  for (const auto& each : commands) {
    through_->board().request(each);
    tell(this, copies_,
         fetch_block{.block = each.block,
                     .slot = each.slot,
                     .generation = each.generation,
                     .after_last_use = each.wait_for_last_use,
                     .sequence = next_gather_,
                     .stamp = owner_->stamp(),
                     .demanded = each.demanded});
    if (const auto& gather = through_->at(each.block).gather)
      next_gather_ += gather->manifest->chunks.size();
  }
}

void block_prefetcher::fail(failure reason) {
  refusal_ = reason;
  through_->board().fail(reason);
  tell(this, supervisor_, child_failed{name(), generation_, std::move(reason)});
}

} // namespace ferry
