// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "copy_stream_worker.hpp"

#include <ferry/offload/wait_edges.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

copy_stream_worker::copy_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                                       supervisor_actor supervisor)
    : device_worker(config, std::move(owner), "copy"), supervisor_(std::move(supervisor)) {}

copy_stream_worker::behavior_type copy_stream_worker::make_behavior() {
  return {
      [this](const fetch_block& m) { return guarded(this, m, [&] { fetch(m); }); },
      [this](const piece_sent& m) { return guarded(this, m, [&] { sent(m); }); },
      [this](const open_copies& m) { return guarded(this, m, [&] { return open(m); }); },
      [this](const reload_residents& m) { return guarded(this, m, [&] { return reload(m); }); },
      [this](const discard_slot& m) { return guarded(this, m, [&] { discard(m); }); },
      [this](const drain_copies& m) {
        return guarded_later<answered>(this, m, [&] { return drain(m); });
      },
      [this](const close_copies& m) { return guarded(this, m, [&] { return close(m); }); },
      [this](const start_child& m) { return guarded(this, m, [&] { start(m); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) { return guarded(this, m, [&] { return release(); }); },
  };
}

void copy_stream_worker::on_exit() {
  stop_work();
  gathers_ = nullptr;
  packer_ = nullptr;
  drains_.clear();
  supervisor_ = nullptr;
}

void copy_stream_worker::start(const start_child& message) {
  generation_ = message.generation;
  go_to_work();
}

void copy_stream_worker::drain(const drain_child& message) {
  const auto held = keep();
  refuse(message.cause);
  answer_drains();
}

answered copy_stream_worker::open(const open_copies& message) {
  const auto held = serve(message.through, &streaming::copying);
  const host_thread::scope scope{me(), message.stamp};
  gathers_ = message.gathers;
  ahead_ = message.pipelining == gather_pipelining::overlapped ? transfer_plan::inputs : 1;
  waiting_.clear();
  pieces_ = sent_ = 0;
  gathered_last_ = false;
  packer_ = message.packer;
  patience_ = message.patience;
  first_turn_ = asked_ = copied_ = 0;
  load_residents();
  return {owner().stamp()};
}

answered copy_stream_worker::reload(const reload_residents& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  load_residents();
  return {owner().stamp()};
}

void copy_stream_worker::load_residents() {
  for (const auto& each : through()->residents())
    copy_all(each.from, each.target, {.what = "load resident"});
  own_stream().record(through()->residents_ready());
}

void copy_stream_worker::fetch(const fetch_block& message) {
  ask(message);
}

void copy_stream_worker::discard(const discard_slot& message) {
  ask(message);
}

// Where nothing is gathered and nothing staged, nothing ever waits.
void copy_stream_worker::ask(slot_work work) {
  const auto held = keep();
  if (idle())
    return;
  if (waiting_.empty() && done(work))
    return;
  waiting_.push_back(std::move(work));
  go_on();
}

void copy_stream_worker::sent(const piece_sent& message) {
  const auto held = keep();
  if (idle())
    return;
  known_[message.sequence % known_.size()] = message.stamp;
  ++sent_;
  go_on();
  answer_drains();
}

void copy_stream_worker::go_on() {
  while (!waiting_.empty() && done(waiting_.front()))
    waiting_.pop_front();
}

bool copy_stream_worker::done(slot_work& work) {
  if (idle())
    return true;
  if (auto* const fetched = std::get_if<fetch_block>(&work)) {
    const auto& block = through()->at(fetched->block);
    auto all = attempt([&] {
      if (block.gather)
        return send_pieces(*fetched);
      if (sent_ != pieces_)
        return false;
      if (block.staged)
        return stage_pieces(*fetched);
      fetch_now(*fetched);
      return true;
    });
    if (!all)
      fail(about(std::move(all.error()), block.path));
    return !all || *all;
  }
  if (sent_ != pieces_)
    return false;
  if (auto discarded = attempt([&] { discard_now(std::get<discard_slot>(work)); }); !discarded)
    fail(std::move(discarded.error()));
  return true;
}

void copy_stream_worker::fetch_now(const fetch_block& message) {
  const profile_scope shown{through()->ranges(), "fetch", through()->at(message.block).path};
  const host_thread::scope scope{me(), message.stamp};
  auto& slot = through()->at(message.slot);
  wait_for_gathers();
  if (message.after_last_use)
    own_stream().wait(slot.last_use, fetch_waits_last_use);
  give_pages_back(message.slot);
  const auto& block = through()->at(message.block);
  const operation_tag tag{.what = "fetch",
                          .block = static_cast<std::uint32_t>(message.block),
                          .ticket = message.generation};
  if (block.in_place)
    get_pages(message.slot, message.block, tag);
  else
    copy_all(block.from, slot.bytes, tag);
  own_stream().record(slot.ready);
  through()->board().publish(message.slot, message.generation, owner().stamp());
}

// Goes on where the last call stopped. While one buffer is copied from, the other is packed.
bool copy_stream_worker::stage_pieces(const fetch_block& message) {
  const auto& buffers = *through()->staging();
  const auto pieces = buffers.pieces_of(through()->at(message.block).bytes);
  const host_thread::scope scope{me(), message.stamp};
  while (asked_ - first_turn_ != pieces && asked_ - copied_ != staging_buffers::count)
    ask_packer(message, asked_ - first_turn_);
  if (copied_ - first_turn_ != pieces)
    return false;
  first_turn_ = copied_;
  return true;
}

void copy_stream_worker::ask_packer(const fetch_block& message, std::size_t piece) {
  const auto then = [this, message, piece, served = through()](const result<answered>& outcome) {
    const auto held = keep();
    if (!idle() && served == through())
      packed(message, piece, outcome);
  };
  inquire(this, packer_, patience_,
          pack_piece{
              .block = message.block, .piece = piece, .turn = asked_++, .stamp = owner().stamp()})
      .then([then](const answered& answer) { then(answer); },
            [then](const caf::error& reason) { then(tl::unexpected(to_failure(reason))); });
}

void copy_stream_worker::packed(const fetch_block& message, std::size_t piece,
                                const result<answered>& outcome) {
  if (outcome && first_turn_ + piece != copied_)
    return; // The answer before it was lost, which its deadline will tell.
  auto copied = attempt([&]() -> result<void> {
    return outcome.map([&](const answered& known) { copy_piece(message, piece, known.stamp); });
  });
  if (!copied)
    fail(about(std::move(copied.error()), through()->at(message.block).path));
  go_on();
  answer_drains();
}

void copy_stream_worker::copy_piece(const fetch_block& message, std::size_t piece,
                                    const causal_stamp& packed) {
  const profile_scope shown{through()->ranges(), "fetch", through()->at(message.block).path};
  const host_thread::scope scope{me(), packed};
  auto& slot = through()->at(message.slot);
  auto& buffers = *through()->staging();
  const auto bytes = through()->at(message.block).bytes;
  if (piece == 0) {
    wait_for_gathers();
    if (message.after_last_use)
      own_stream().wait(slot.last_use, fetch_waits_last_use);
    give_pages_back(message.slot);
  }
  buffers.copy(copied_, buffers.piece(bytes, piece), slot.bytes, own_stream(),
               {.what = "fetch",
                .block = static_cast<std::uint32_t>(message.block),
                .ticket = message.generation});
  ++copied_;
  if (piece + 1 != buffers.pieces_of(bytes))
    return;
  own_stream().record(slot.ready);
  through()->board().publish(message.slot, message.generation, owner().stamp());
}

// Goes on where the last call stopped: `pieces_` tells which piece comes next.
bool copy_stream_worker::send_pieces(fetch_block& message) {
  const auto& block = through()->at(message.block);
  const profile_scope shown{through()->ranges(), "fetch", block.path};
  const auto& chunks = block.gather->manifest->chunks;
  const host_thread::scope scope{me(), message.stamp};
  give_pages_back(message.slot);
  for (auto chunk = pieces_ - message.sequence; chunk < chunks.size(); ++chunk) {
    if (pieces_ - sent_ == ahead_)
      return false;
    if (pieces_ >= ahead_)
      wait_for_gather(pieces_ - ahead_);
    auto& input = through()->input(pieces_);
    for (const auto& each : block.gather->shard->segments(chunks[chunk]))
      own_stream().copy({.target = input.bytes.subspan(each.offset - chunks[chunk].shard_offset,
                                                       each.source.size()),
                         .source = each.source,
                         .to = memory_kind::device,
                         .from = each.kind,
                         .tag = {.what = "fetch shard",
                                 .block = static_cast<std::uint32_t>(message.block),
                                 .ticket = message.generation}});
    own_stream().record(input.landed);
    tell(this, gathers_,
         gather_piece{.block = message.block,
                      .slot = message.slot,
                      .generation = message.generation,
                      .chunk = static_cast<std::uint32_t>(chunk),
                      .sequence = pieces_++,
                      .after_last_use = message.after_last_use && chunk == 0,
                      .stamp = owner().stamp()});
    gathered_last_ = true;
  }
  return true;
}

void copy_stream_worker::discard_now(const discard_slot& message) {
  const host_thread::scope scope{me(), message.stamp};
  auto& slot = through()->at(message.slot);
  wait_for_gathers();
  // The fetch that waited for it may have failed to come.
  own_stream().wait(slot.last_use, fetch_waits_last_use);
  give_pages_back(message.slot);
  own_stream().discard(slot.bytes, {.what = "discard"});
}

bool copy_stream_worker::pages_are_there(block_id block) const {
  for (std::size_t i = 0; i != through()->slot_count(); ++i)
    if (through()->at(slot_id{static_cast<std::uint32_t>(i)}).pages_of == block)
      return true;
  return false;
}

// A block may be wanted in two slots at once. Its pages come with the first and go with the last.
void copy_stream_worker::get_pages(slot_id slot, block_id block, operation_tag tag) {
  const auto there = pages_are_there(block);
  through()->at(slot).pages_of = block; // Also where only some of them come.
  if (!there)
    for (const auto& range : through()->at(block).pages)
      own_stream().populate(range, tag);
}

void copy_stream_worker::give_pages_back(slot_id slot) {
  auto& from = through()->at(slot);
  if (!from.pages_of)
    return;
  own_stream().wait(from.last_use, fetch_waits_last_use);
  const auto block = *std::exchange(from.pages_of, std::nullopt);
  if (pages_are_there(block))
    return;
  for (const auto& range : through()->at(block).pages)
    own_stream().evict(range,
                       {.what = "evict", .block = static_cast<std::uint32_t>(block), .ticket = 0});
}

// The communication stream may still write to the slot that comes next. @pre all are enqueued
void copy_stream_worker::wait_for_gathers() {
  if (!std::exchange(gathered_last_, false))
    return;
  wait_for_gather(pieces_ - 1);
}

void copy_stream_worker::wait_for_gather(std::uint64_t piece) {
  owner().observe(known_[piece % known_.size()]);
  own_stream().wait(through()->input(piece).sent, fetch_waits_gather);
}

void copy_stream_worker::copy_all(streaming::sources from, mutable_bytes target,
                                  operation_tag tag) {
  for (const auto& each : from)
    own_stream().copy(each.copy_to(target, tag));
}

caf::result<answered> copy_stream_worker::drain(const drain_copies& message) {
  const auto held = keep();
  check_open();
  if (refusal() || waiting_.empty())
    return record_drained(message.stamp);
  drains_.push_back({message.stamp, make_response_promise<answered>()});
  return drains_.back().promise;
}

// What waits for gathers that never come is not done any more.
void copy_stream_worker::answer_drains() {
  if (!refusal() && !waiting_.empty())
    return;
  for (auto& each : std::exchange(drains_, {})) {
    auto recorded = attempt([&] { return record_drained(each.stamp); });
    if (recorded)
      each.promise.deliver(std::move(*recorded));
    else
      each.promise.deliver(to_error(recorded.error()));
  }
}

answered copy_stream_worker::record_drained(const causal_stamp& stamp) {
  check_open();
  const host_thread::scope scope{me(), stamp};
  own_stream().record(through()->drained());
  return {owner().stamp()};
}

answered copy_stream_worker::close(const close_copies& message) {
  if (!at_work())
    return {};
  auto closed = let_go(message.stamp);
  gathers_ = nullptr;
  packer_ = nullptr;
  waiting_.clear();
  answer_drains();
  return closed;
}

void copy_stream_worker::fail(failure reason) {
  refuse(reason);
  through()->board().fail(reason);
  tell(this, supervisor_, child_failed{name(), generation_, std::move(reason)});
}

} // namespace ferry
