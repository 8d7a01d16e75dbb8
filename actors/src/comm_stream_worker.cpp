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
    : device_worker(config, std::move(owner), "comm"), ranks_(std::move(ranks)),
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
  if (at_work())
    ranks_->abort({errc::transfer_aborted, "comm_stream_worker ended by itself"});
  stop_work();
  ranks_ = nullptr;
  copies_ = nullptr;
  supervisor_ = nullptr;
}

void comm_stream_worker::start(const start_child& message) {
  generation_ = message.generation;
  go_to_work();
}

// Others would wait for what this rank sends no more.
void comm_stream_worker::drain(const drain_child& message) {
  if (refusal())
    return;
  refuse(message.cause);
  if (message.failed)
    ranks_->abort(message.cause);
}

answered comm_stream_worker::open(const open_gathers& message) {
  const auto held = serve(message.through, &streaming::exchanging);
  const host_thread::scope scope{me(), message.stamp};
  next_ = 0;
  early_.clear();
  return {owner().stamp()};
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
                 through()->at(piece.block).path));
  }
}

void comm_stream_worker::enqueue(const gather_piece& piece) {
  const host_thread::scope scope{me(), piece.stamp};
  const auto& manifest = *through()->at(piece.block).gather->manifest;
  const auto& chunk = manifest.chunks[piece.chunk];
  auto& slot = through()->at(piece.slot);
  auto& input = through()->input(piece.sequence);
  auto& comm = own_stream();
  comm.wait(input.landed, gather_waits_fetch);
  if (piece.after_last_use)
    comm.wait(slot.last_use, gather_waits_last_use);
  ranks_->all_gather(comm.id(), slot.bytes.subspan(chunk.full_offset, chunk.local * manifest.ranks),
                     input.bytes.first(chunk.local),
                     {.what = "gather",
                      .block = static_cast<std::uint32_t>(piece.block),
                      .ticket = piece.generation});
  comm.record(input.sent);
  through()->count_gather(chunk.local * manifest.ranks);
  const auto last = piece.chunk + 1 == manifest.chunks.size();
  if (last)
    comm.record(slot.ready);
  auto known = owner().stamp();
  tell(this, copies_, piece_sent{piece.sequence, known});
  if (last)
    through()->board().publish(piece.slot, piece.generation, std::move(known));
}

answered comm_stream_worker::drain(const drain_gathers& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{me(), message.stamp};
  own_stream().record(through()->gathers_drained());
  return {owner().stamp()};
}

answered comm_stream_worker::close(const close_gathers& message) {
  early_.clear();
  return let_go(message.stamp);
}

void comm_stream_worker::fail(failure reason) {
  refuse(reason);
  ranks_->abort(reason);
  through()->board().fail(reason);
  tell(this, supervisor_, child_failed{name(), generation_, std::move(reason)});
}

} // namespace ferry
