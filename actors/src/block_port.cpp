// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "block_port.hpp"

#include <ferry/offload/overlap.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "guarded.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ferry {
namespace {

operation_tag tag_of(const char* what, block_id block, std::uint64_t ticket) {
  return {.what = what, .block = static_cast<std::uint32_t>(block), .ticket = ticket};
}

} // namespace

block_port::block_port(std::shared_ptr<streaming> through, block_prefetcher_actor prefetcher,
                       supervisor_actor supervisor, std::chrono::milliseconds deadline)
    : through_(std::move(through)), prefetcher_(std::move(prefetcher)),
      supervisor_(std::move(supervisor)), deadline_(deadline) {}

mutable_bytes block_port::acquire(block_id block) {
  auto& board = through_->board();
  if (!board.enter())
    throw ferry_error{about(board.first_failure(), through_->at(block).path)};
  auto ordered = attempt([&] {
    if (board.cancelled())
      throw ferry_error{{errc::cancelled, "the request was cancelled"}};
    const auto on = through_->compute();
    // Before the search: what it takes until the copy is enqueued is part of the wait.
    if (auto asked = attempt([&] { through_->owner().mark(on, tag_of(mark_acquire, block, 0)); });
        !asked) {
      fail(asked.error(), block);
      throw ferry_error{std::move(asked.error())};
    }
    const auto ticket = find(block);
    auto bytes = attempt([&] { return order(block, ticket, on); });
    if (!bytes) {
      // The stream tells less of a lost rank than the group does.
      if (auto lost = through_->group_failure())
        bytes = tl::unexpected(std::move(*lost));
      board.give_back(ticket.slot);
      fail(bytes.error(), block);
    }
    return bytes;
  });
  if (!ordered) {
    board.leave();
    throw ferry_error{about(std::move(ordered.error()), through_->at(block).path)};
  }
  if (auto* ranges = through_->ranges())
    ranges->push(through_->at(block).path);
  through_->count_use();
  through_->count_pass();
  return *ordered;
}

ticket_board::ticket block_port::find(block_id block) {
  auto& board = through_->board();
  if (board.taken(block))
    throw ferry_error{{errc::slot_conflict, "the block is in use already; it cannot run twice"}};
  if (auto ready = board.take(block, oldest_))
    return *ready;
  // What is requested and not retired comes without being asked for: only a demand revokes it.
  if (!board.on_its_way(block, oldest_))
    demand(block);
  auto ticket = board.wait_for(block, oldest_, deadline_);
  if (!ticket)
    throw ferry_error{std::move(ticket.error())};
  return *ticket;
}

void block_port::demand(block_id block) {
  if (through_->board().count().in_use == through_->slot_count())
    throw ferry_error{{errc::slot_conflict,
                       "all " + std::to_string(through_->slot_count()) +
                           " slots hold blocks in use; release one first or allow more slots"}};
  auto& owner = through_->owner();
  post(prefetcher_, demand_block{block, owner.stamp(), {owner.now()}});
}

mutable_bytes block_port::order(block_id block, const ticket_board::ticket& ticket, stream_id on) {
  auto& owner = through_->owner();
  auto& slot = through_->at(ticket.slot);
  slot.on = on;
  const auto& used = through_->at(block);
  const auto bytes = used.in_place ? mutable_bytes{} : slot.bytes.first(used.bytes);
  owner.observe(through_->board().known(ticket.slot));
  owner.wait(on, slot.ready.id(), compute_waits_fetch);
  owner.mark(on, tag_of(mark_begin, block, ticket.generation));
  announce(block, ticket, on);
  if (owner.traits().computes_on_host)
    owner.settle(on);
  if (through_->at(block).gather)
    check_ranks();
  return bytes;
}

void block_port::announce(block_id block, const ticket_board::ticket& ticket, stream_id on) {
  const auto& used = through_->at(block);
  const std::array<const_bytes, 1> whole{through_->at(ticket.slot).bytes.first(used.bytes)};
  const std::span<const const_bytes> reads = used.in_place ? std::span{used.pages} : whole;
  through_->owner().compute(on,
                            {.reads = reads, .tag = tag_of("compute", block, ticket.generation)});
}

// A stream goes on when a gather has failed.
void block_port::check_ranks() const {
  if (auto lost = through_->group_failure())
    throw ferry_error{std::move(*lost)};
}

void block_port::again(block_id block) {
  const auto ticket = through_->board().taken(block);
  FERRY_ASSERT(ticket.has_value());
  if (auto told = attempt([&] { go_on(block, *ticket); }); !told) {
    fail(told.error(), block);
    throw ferry_error{about(std::move(told.error()), through_->at(block).path)};
  }
  through_->count_pass();
}

void block_port::go_on(block_id block, const ticket_board::ticket& ticket) {
  auto& slot = through_->at(ticket.slot);
  const std::array before{slot.on};
  slot.on = through_->compute();
  through_->join(slot.on, before);
  announce(block, ticket, slot.on);
}

void block_port::release(block_id block) noexcept {
  auto& board = through_->board();
  const auto ticket = board.taken(block);
  FERRY_ASSERT(ticket.has_value());
  if (auto* ranges = through_->ranges())
    ranges->pop();
  const auto finished = attempt([&] { finish(block, *ticket); });
  if (!finished) {
    if (board.taken(block))
      board.give_back(ticket->slot);
    fail(finished.error(), block);
  }
  board.leave();
}

void block_port::finish(block_id block, const ticket_board::ticket& ticket) {
  auto& owner = through_->owner();
  auto& slot = through_->at(ticket.slot);
  const std::array now{through_->compute()};
  through_->join(slot.on, now);
  owner.mark(slot.on, tag_of(mark_end, block, ticket.generation));
  if (!through_->at(block).in_place)
    owner.discard(slot.on, slot.bytes, tag_of("discard", block, ticket.generation));
  owner.record(slot.on, slot.last_use.id());
  auto stamp = owner.stamp();
  oldest_ = std::max(oldest_, ticket.retires_below);
  for (const auto range : through_->at(block).pages)
    if (auto there = check_unchanged(range); !there)
      throw ferry_error{std::move(there.error())};
  through_->board().give_back(ticket.slot);
  post(prefetcher_,
       block_released{block, ticket.slot, ticket.generation, std::move(stamp), {owner.now()}});
}

void block_port::mark(const char* what) {
  auto& board = through_->board();
  if (!board.enter())
    return;
  static_cast<void>(attempt([&] { through_->owner().mark(through_->compute(), {.what = what}); }));
  board.leave();
}

void block_port::fail(failure reason, block_id block) {
  reason = about(std::move(reason), through_->at(block).path);
  through_->board().fail(reason);
  post(supervisor_, child_failed{"model thread", 0, std::move(reason)});
}

void block_port::close() noexcept {
  prefetcher_ = nullptr;
  supervisor_ = nullptr;
}

} // namespace ferry
