// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "comm_stream_worker.hpp"

#include <ferry/offload/wait_edges.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

comm_stream_worker::comm_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                                       std::shared_ptr<communicator> ranks,
                                       copy_stream_actor copies, supervisor_actor supervisor)
    : comm_stream_actor::base(config), owner_(std::move(owner)), ranks_(std::move(ranks)),
      copies_(std::move(copies)), supervisor_(std::move(supervisor)) {}

comm_stream_worker::behavior_type comm_stream_worker::make_behavior() {
  return {
      [this](const open_gathers& m) { return guarded(this, m, [&] { return open(m); }); },
      [this](const gather_piece& m) { return guarded(this, m, [&] { gather(m); }); },
      [this](const drain_gathers& m) { return guarded(this, m, [&] { return drain(m); }); },
      [this](const close_gathers& m) { return guarded(this, m, [&] { return close(m); }); },
      [this](const start_child& m) { return guarded(this, m, [&] { start(m); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) { return guarded(this, m, [&] { return release(); }); },
  };
}

// Others would wait for ever for what this rank does not send if it was ended before its time.
void comm_stream_worker::on_exit() {
  if (lane_)
    ranks_->abort({errc::transfer_aborted, "comm_stream_worker ended by itself"});
  lane_.reset();
  through_ = nullptr;
  ranks_ = nullptr;
  copies_ = nullptr;
  supervisor_ = nullptr;
}

void comm_stream_worker::start(const start_child& message) {
  generation_ = message.generation;
  lane_.emplace(*owner_);
}

// Others would wait for what this rank sends no more.
void comm_stream_worker::drain(const drain_child& message) {
  if (refusal_)
    return;
  refusal_ = message.cause;
  if (message.failed)
    ranks_->abort(message.cause);
}

answered comm_stream_worker::release() {
  answered last;
  if (lane_) {
    const host_thread::scope scope{lane_->me};
    through_ = nullptr;
    last.stamp = owner_->stamp();
  }
  lane_.reset();
  quit();
  return last;
}

answered comm_stream_worker::open(const open_gathers& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ != nullptr)
    throw ferry_error{{errc::busy, "the communication worker serves a backend already"}};
  FERRY_ASSERT(lane_.has_value());
  const host_thread::scope scope{lane_->me, message.stamp};
  permit_ = message.through->exchanging();
  const auto held = permit_->begin(lane_->gathers);
  if (!held)
    throw ferry_error{{errc::not_enabled, "the backend was taken back before it was opened"}};
  through_ = message.through;
  next_ = 0;
  early_.clear();
  return {owner_->stamp()};
}

work_permit::use_lock comm_stream_worker::keep() {
  auto held = permit_ == nullptr ? work_permit::use_lock{} : permit_->use();
  if (!held)
    through_ = nullptr;
  return held;
}

void comm_stream_worker::gather(const gather_piece& message) {
  const auto held = keep();
  if (idle())
    return;
  early_.emplace(message.sequence, message);
  for (auto next = early_.find(next_); next != early_.end() && !idle();
       next = early_.find(++next_)) {
    const auto piece = early_.extract(next).mapped();
    const auto enqueued = attempt([&] { enqueue(piece); });
    // A call that the group refuses tells less of the cause than the group does.
    if (!enqueued)
      fail(about(ranks_->asynchronous_failure().value_or(enqueued.error()),
                 through_->at(piece.block).path));
  }
}

void comm_stream_worker::enqueue(const gather_piece& piece) {
  const host_thread::scope scope{lane_->me, piece.stamp};
  const auto& manifest = *through_->at(piece.block).gather->manifest;
  const auto& chunk = manifest.chunks[piece.chunk];
  auto& slot = through_->at(piece.slot);
  auto& input = through_->input(piece.sequence);
  auto& comm = *lane_->gathers;
  comm.wait(input.landed, gather_waits_fetch);
  if (piece.after_last_use)
    comm.wait(slot.last_use, gather_waits_last_use);
  ranks_->all_gather(comm.id(), slot.bytes.subspan(chunk.full_offset, chunk.local * manifest.ranks),
                     input.bytes.first(chunk.local),
                     {.what = "gather",
                      .block = static_cast<std::uint32_t>(piece.block),
                      .ticket = piece.generation});
  comm.record(input.sent);
  through_->count_gather(chunk.local * manifest.ranks);
  const auto last = piece.chunk + 1 == manifest.chunks.size();
  if (last)
    comm.record(slot.ready);
  auto known = owner_->stamp();
  tell(this, copies_, piece_sent{piece.sequence, known});
  if (last)
    through_->board().publish(piece.slot, piece.generation, std::move(known));
}

answered comm_stream_worker::drain(const drain_gathers& message) {
  const auto held = keep();
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "the communication worker serves no backend"}};
  const host_thread::scope scope{lane_->me, message.stamp};
  lane_->gathers->record(through_->gathers_drained());
  return {owner_->stamp()};
}

answered comm_stream_worker::close(const close_gathers& message) {
  if (!lane_)
    return {};
  const host_thread::scope scope{lane_->me, message.stamp};
  through_ = nullptr;
  early_.clear();
  return {owner_->stamp()};
}

void comm_stream_worker::fail(failure reason) {
  refusal_ = reason;
  ranks_->abort(reason);
  through_->board().fail(reason);
  tell(this, supervisor_, child_failed{name(), generation_, std::move(reason)});
}

} // namespace ferry
